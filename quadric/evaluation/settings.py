"""Settings of an evaluation as a plain dataclass, free of torch: the command line makes its flags from it."""

from dataclasses import dataclass

from quadric.data.settings import Split


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Which text to read, and how much.

    Example:
        >>> from quadric.evaluation import EvaluationSettings
        >>> EvaluationSettings(tokens=10_000, spliced_tokens=0).split
        'held_out'
    """

    tokens: int = 32768
    """Number of held-out tokens for measuring the error."""
    spliced_tokens: int = 4096
    """Number of tokens to predict from reconstructed vectors, in whole sequences; 0 skips this."""
    split: Split = "held_out"
    """Evaluate on the held-out documents or on the training documents."""
    model: str | None = None
    """Location of the language model, if its recorded name is not enough to find it."""
    corpus: str | None = None
    """Another corpus, or the location of the recorded one."""

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.spliced_tokens < 0:
            raise ValueError(f"tokens={self.tokens} and spliced_tokens={self.spliced_tokens} must be ≥ 1 and ≥ 0")
