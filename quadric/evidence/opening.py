"""The stream that an autoencoder was made for, opened again from its provenance."""

from pathlib import Path

from quadric.activations import ActivationCache, BatchSize, CachedStream, LiveStream
from quadric.activations.config import config_from
from quadric.autoencoders import Provenance


def open_live(
    provenance: Provenance, *, model: str | None, corpus: str | None, batch_tokens: int, device: str
) -> LiveStream:
    """A live stream, once over its text."""
    config = config_from(provenance, model=model, corpus=corpus)
    return LiveStream.open(config, batch=BatchSize(tokens=batch_tokens), device=device)


def open_cached(provenance: Provenance, folder: Path, batch_tokens: int) -> CachedStream:
    """A cache in the order in which it was made, which is the order of its text."""
    cache = ActivationCache(folder)
    if provenance.hook_point is not None and provenance.hook_point not in cache.hook_points:
        raise ValueError(
            f"the cache in {folder} holds {', '.join(cache.hook_points)}, and the autoencoder reads "
            f"{provenance.hook_point}; give a cache that was harvested there"
        )
    return CachedStream(cache, batch=BatchSize(tokens=batch_tokens), seed=None)
