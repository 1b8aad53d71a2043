"""The stream that an autoencoder was made for, opened again from its provenance."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from quadric.activations import (
    ActivationCache,
    ActivationConfig,
    BatchSize,
    CachedStream,
    LiveStream,
    TokenRules,
)
from quadric.autoencoders import Provenance
from quadric.corpus import CorpusConfig
from quadric.corpus.sources import kind_of


def live_config(provenance: Provenance, *, model: str | None = None, corpus: str | None = None) -> ActivationConfig:
    """What reads the same text with the same model; `model` and `corpus` say where they are now."""
    if provenance.model is None or provenance.hook_point is None or provenance.corpus is None:
        raise ValueError(
            f"the autoencoder was made from '{provenance.corpus or 'an unknown source'}' and names no language model, "
            "so there is no text to show; give one that was trained on a language model's activations"
        )
    recorded = provenance.token_rules or {}
    return ActivationConfig(
        model=model or provenance.model,
        model_revision=provenance.model_revision if model is None else None,
        model_dtype=provenance.model_dtype or "auto",  # type: ignore[arg-type]
        hook_points=provenance.hook_point,
        corpus=_corpus(provenance, corpus),
        rules=TokenRules(
            **{field.name: recorded[field.name] for field in fields(TokenRules) if field.name in recorded}
        ),
    )


def _corpus(provenance: Provenance, corpus: str | None) -> CorpusConfig:
    source = corpus or provenance.corpus or ""
    own: dict[str, Any] = {
        "split": provenance.split,
        "packing": provenance.packing,
        "block_length": provenance.block_length,
        # A hub dataset is read at the commit that was read before; files are as they are.
        "revision": provenance.corpus_revision if corpus is None and kind_of(source) == "hub" else None,
    }
    given = {name: value for name, value in own.items() if value is not None}
    return CorpusConfig(source=source, **(provenance.corpus_settings or {}), **given)


def open_live(
    provenance: Provenance, *, model: str | None, corpus: str | None, batch_tokens: int, device: str
) -> LiveStream:
    """A live stream, once over its text."""
    config = live_config(provenance, model=model, corpus=corpus)
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
