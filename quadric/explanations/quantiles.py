"""Where a value lies in a latent's own distribution, from the quantiles that evidence keeps.

Between two stored quantiles the log-odds log(p / (1 − p)) are linear in the value, which follows the tails better than
p itself. Beyond the outermost ones nothing is known but the bound, so quantiles stay within 0.1 % … 99.9 %.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Float64

Array = np.ndarray


def quantiles_of(
    values: Float32[Array, "n k"], stored: Float32[Array, "k q"], probabilities: Sequence[float]
) -> Float64[Array, "n k"]:
    """Share of tokens with a smaller value, for every token and latent.

    Args:
        values: sign·z of every token and latent.
        stored: The values at `probabilities`, ascending, of every latent.
        probabilities: Of the stored values.

    Returns:
        Shares between the first and the last probability. Where stored values are equal, a value on them has the middle
        of their probabilities.
    """
    odds = np.log(np.asarray(probabilities)) - np.log1p(-np.asarray(probabilities))
    below = _interpolated(values, stored, odds, (values[..., None] > stored).sum(-1))
    above = _interpolated(values, stored, odds, (values[..., None] >= stored).sum(-1))
    return np.asarray(1 / (1 + np.exp(-(below + above) / 2)))


def _interpolated(values: Array, stored: Array, odds: Array, reached: Array) -> Array:
    """Log-odds between the last of the `reached` quantiles and the next one."""
    low, high = np.clip(reached - 1, 0, len(odds) - 1), np.clip(reached, 0, len(odds) - 1)
    latents = np.arange(stored.shape[0])
    first, last = stored[latents, low].astype(np.float64), stored[latents, high].astype(np.float64)
    step = last - first
    part = np.where(step > 0, (values - first) / np.where(step > 0, step, 1), 0)
    return np.asarray(odds[low] + part.clip(0, 1) * (odds[high] - odds[low]))


def surprise(quantiles: Float64[Array, "n k"]) -> Float64[Array, "n k"]:
    """Bits by which a value is rarer than the median on its side: 0 at the median, 9 at 0.1 % and at 99.9 %."""
    return np.asarray(np.log2(0.5 / np.minimum(quantiles, 1 - quantiles)).clip(min=0))
