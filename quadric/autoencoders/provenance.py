"""Where an autoencoder's activations came from."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What must be known to feed an autoencoder the activations it was made for; None where it does not apply."""

    model: str | None = None
    """Hub id, folder or resource name of the language model."""
    model_revision: str | None = None
    """Commit or content hash of the language model."""
    model_dtype: str | None = None
    """Precision in which the language model ran."""
    hook_point: str | None = None
    """Canonical name of the place in the model that was read."""
    tokenizer_fingerprint: str | None = None
    """Hash of the tokenizer's vocabulary and rules."""
    corpus: str | None = None
    """Name or path of the text."""
    corpus_revision: str | None = None
    """Commit or content hash of the text."""
    corpus_settings: dict[str, Any] | None = None
    """What else decided which text was read, and in which order."""
    split: str | None = None
    """The part of the text: to train on, or held out."""
    packing: str | None = None
    """Whether documents share blocks."""
    block_length: int | None = None
    """Tokens that the language model read at a time."""
    normalisation: str = "unit norm per token"  # spelled as in the files that exist
    """How a token vector is scaled before it is encoded."""
    token_rules: dict[str, Any] | None = None
    """Which tokens were left out, and by which rule."""
