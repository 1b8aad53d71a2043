"""Where an autoencoder's activations came from."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What must be known to feed an autoencoder the activations it was made for; None where it does not apply."""

    model: str | None = None
    """Hub id, folder or resource name of the language model."""
    model_revision: str | None = None
    """Commit or content hash of the language model."""
    hook_point: str | None = None
    """Canonical name of the place in the model that was read."""
    tokenizer_fingerprint: str | None = None
    """Hash of the tokenizer's vocabulary and rules."""
    corpus: str | None = None
    """Name or path of the text."""
    corpus_revision: str | None = None
    """Commit or content hash of the text."""
    normalisation: str = "unit norm per token"
    """How a token vector was scaled before it was encoded."""
    token_rules: str | None = None
    """Which tokens were left out, and by which rule."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, str) and (value is not None or name == "normalisation"):
                raise ValueError(f"provenance {name}={value!r} is not text; give a string")
