"""Streams of the activations that an autoencoder reads: opened again from its provenance, and checked against it."""

from pathlib import Path
from typing import Any

from quadric.data import ActivationCache, BatchSize, CachedStream, LiveStream
from quadric.data.batches import ActivationStream
from quadric.data.provenance import config_from
from quadric.model import Dictionary, Provenance

MUST_MATCH = ("model", "model_revision", "hook_point", "tokenizer_fingerprint")
"""Parts of a provenance that must be the same for an autoencoder and a stream; the text may be another."""


def open_live(
    provenance: Provenance,
    *,
    model: str | None = None,
    corpus: str | None = None,
    batch_tokens: int,
    device: str = "auto",
) -> LiveStream:
    """The live stream that an autoencoder was made for, opened again from its provenance; one pass over its text.

    Args:
        provenance: Of the autoencoder.
        model: Location of the language model, if its recorded name is not enough to find it.
        corpus: Another corpus, or the location of the recorded one.
        batch_tokens: Tokens per batch.
        device: Device of the language model.

    Returns:
        The stream.

    Example:
        >>> from quadric.evidence import open_live
        >>> stream = open_live(ae.provenance, batch_tokens=256)
        >>> next(iter(stream)).activations["resid_pre.2"].shape
        torch.Size([256, 32])
    """
    config = config_from(provenance, model=model, corpus=corpus)
    return LiveStream.open(config, batch=BatchSize(tokens=batch_tokens), device=device)


def open_cached(provenance: Provenance, folder: Path, batch_tokens: int) -> CachedStream:
    """A cache in the order of its text, if it holds the hook point that an autoencoder reads.

    Args:
        provenance: Of the autoencoder.
        folder: Of the cache.
        batch_tokens: Tokens per batch.

    Returns:
        One pass over the cache.

    Example:
        >>> from quadric.evidence import open_cached
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=500, out="cache")
        >>> stream = open_cached(ae.provenance, Path("cache"), batch_tokens=200)
        >>> [len(batch) for batch in stream]
        [200, 200, 100]
    """
    cache = ActivationCache(folder)
    if provenance.hook_point is not None and provenance.hook_point not in cache.hook_points:
        raise ValueError(
            f"the cache in {folder} holds {', '.join(cache.hook_points)}, and the autoencoder reads "
            f"{provenance.hook_point}; give a cache that was harvested there"
        )
    return CachedStream(cache, batch=BatchSize(tokens=batch_tokens), seed=None)


def hook_point_here(autoencoder: Dictionary, stream: ActivationStream) -> str:
    """The name under which the stream holds the autoencoder's activations.

    If the stream's origin is unknown (`provenance` is None, as for a bare tensor), or the autoencoder records no hook
    point, it is the only one of the stream.
    """
    own = autoencoder.provenance.hook_point
    if own is not None and own in stream.hook_points:
        return own
    is_open = own is None or _provenance_of(stream, stream.hook_points[0]).hook_point is None
    if is_open and len(stream.hook_points) == 1:
        return stream.hook_points[0]
    raise ValueError(
        f"the autoencoder reads hook point {own}, but the stream has {', '.join(stream.hook_points)}; "
        "give a stream of the autoencoder's hook point"
    )


def provenance_here(autoencoder: Dictionary, stream: ActivationStream) -> Provenance:
    """The origin of the stream's activations, which must be that of the autoencoder's where both are known.

    The text may be another. A bare tensor has no known origin: its provenance is empty.
    """
    if autoencoder.d_model != stream.d_model:
        raise ValueError(
            f"the autoencoder has d_model={autoencoder.d_model}, the stream {stream.d_model}; "
            "give activations of the autoencoder's width"
        )
    here = _provenance_of(stream, hook_point_here(autoencoder, stream))
    for name in MUST_MATCH:
        trained, found = getattr(autoencoder.provenance, name), getattr(here, name)
        if None not in (trained, found) and trained != found:
            raise ValueError(
                f"the autoencoder was made for {name} {trained!r}, the stream has {found!r}; "
                "give activations of the same origin"
            )
    return here


def _provenance_of(stream: ActivationStream, hook_point: str) -> Provenance:
    known: Any = stream.provenance  # None, or a Provenance, for streams that no language model made
    if known is None or isinstance(known, Provenance):
        return known or Provenance()
    return stream.provenance.for_hook_point(hook_point)
