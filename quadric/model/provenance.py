"""Where an autoencoder's activations come from."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to reproduce the activations that an autoencoder was trained on; None if it does not apply."""

    model: str | None = None
    """Hub id, folder or resource name of the language model."""
    model_revision: str | None = None
    """Commit or content hash of the language model."""
    model_dtype: str | None = None
    """Precision in which the language model ran."""
    hook_point: str | None = None
    """Canonical name of the hook point in the model."""
    tokenizer_fingerprint: str | None = None
    """Hash of the tokenizer's vocabulary and rules."""
    corpus: str | None = None
    """Name or path of the text."""
    corpus_revision: str | None = None
    """Commit or content hash of the text."""
    corpus_settings: dict[str, Any] | None = None
    """Other settings that determine which text was read, and in which order."""
    split: str | None = None
    """The part of the text: for training, or held out."""
    packing: str | None = None
    """Whether documents share blocks."""
    block_length: int | None = None
    """Tokens per sequence that the language model read."""
    normalisation: str = "unit norm per token"  # spelled as in the files that exist
    """How a token vector is scaled before it is encoded."""
    token_rules: dict[str, Any] | None = None
    """Which tokens were dropped, and by which rule."""
