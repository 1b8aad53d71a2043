"""What is kept of a pass, and by which law."""

from dataclasses import dataclass

LONGEST_WINDOW = 64
SMALLEST_EPSILON = 1e-8
"""Below, (|z| + ε)⁴ leaves the range of float32."""


@dataclass(frozen=True, kw_only=True)
class EvidenceSettings:
    """How much is kept of each latent, and what decides it."""

    n_points: int = 2000
    """Points a latent, drawn without replacement with weights (|z| + epsilon)⁴."""
    n_contexts: int = 6
    """Strongest contexts of each sign."""
    n_axes: int = 8
    """Leading eigenvectors on which every kept token is projected."""
    n_lift_tokens: int = 12
    """Over-represented tokens of each sign."""
    window: int = 4
    """Tokens on each side of a context; two contexts with the same window count as one."""
    epsilon: float = 1e-4
    """Added to |z| before the fourth power, so that a token on which a latent is silent can be drawn too."""
    firing_rms: float = 2.0
    """A token fires a latent where |z| exceeds this many times the latent's root mean square."""
    seed: int = 0
    """Of the draw and of the random control frame."""

    def __post_init__(self) -> None:
        for name in ("n_points", "n_contexts", "n_axes", "n_lift_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        if not 0 <= self.window <= LONGEST_WINDOW:
            raise ValueError(f"window={self.window} is outside 0 … {LONGEST_WINDOW}; the paper shows 4 tokens a side")
        if not SMALLEST_EPSILON <= self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon} is outside [{SMALLEST_EPSILON}, 1); e.g. 1e-4")
        if not self.firing_rms > 0:
            raise ValueError(f"firing_rms={self.firing_rms} is not positive; e.g. 2")
