"""The share of the unit sphere on which a latent fires: P(xᵀWx > τ) for x uniform on it.

Shares fall exponentially with the width d, far below the smallest float, so everything is computed in logarithms.

Rank 1: with λ the only eigenvalue and t = τ/λ, (v·x)² is Beta(½, (d−1)/2), and the share is an incomplete beta
function. Any rank: scaling does not matter on a sphere, so x may be a Gaussian g, and

    P(xᵀWx > τ) = P(gᵀ(W − τI)g > 0) = P(Σ_j a_j χ²_j > 0),    a_j = λ_j − τ, and −τ once for each zero eigenvalue,

which is exact. Its transform is inverted along the vertical line through its saddle point, where the integrand is of
the size of the result, so that small shares keep their relative accuracy.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

COARSEST_STEP = 0.1
STEP_PER_ROOT = 1.0
LONGEST_LINE = 42.0
ROUNDING = 1e-18
SADDLE_STEPS = 100
FRACTION_STEPS = 2_000
NEGLIGIBLE = 1e-200
"""Terms this much smaller than the largest cannot change the sign of a sum that floats distinguish from zero."""


def log_slab_share(threshold: float, d_model: int) -> float:
    """log P((w·x)² > τ) for a unit vector w: a symmetric slab.

    Args:
        threshold: τ, in [0, 1).
        d_model: Width d; x is uniform on the unit sphere.

    Returns:
        The natural logarithm, finite where the share is too small for a float.

    Example:
        >>> from quadric.studies.receptive_field import log_slab_share
        >>> round(log_slab_share(0.5, 1024))
        -358
    """
    _check_width(d_model)
    if threshold < 0:
        return 0.0
    if d_model == 1 or threshold >= 1 or threshold == 0:
        return 0.0 if threshold < 1 else -math.inf
    return _log_beta_tail(threshold, d_model)


def log_half_space_share(threshold: float, d_model: int) -> float:
    """log P(w·x > τ) for a unit vector w: the half-space of a linear latent.

    Args:
        threshold: τ, in (−1, 1).
        d_model: Width d; x is uniform on the unit sphere.

    Returns:
        The natural logarithm.

    Example:
        >>> from quadric.studies.receptive_field import log_half_space_share
        >>> round(log_half_space_share(0.5, 1024))
        -151
    """
    if threshold >= 0:
        return log_slab_share(threshold**2, d_model) - math.log(2)
    return math.log1p(-math.exp(log_half_space_share(-threshold, d_model)))


def log_receptive_field_share(eigenvalues: Float[Tensor, " r"], threshold: float, d_model: int) -> float:
    """log P(xᵀWx > τ) for a form with the given eigenvalues, the others of the d being zero.

    Args:
        eigenvalues: Of the form.
        threshold: τ.
        d_model: Width d; x is uniform on the unit sphere.

    Returns:
        The natural logarithm of the share.

    Example:
        >>> from quadric.studies.receptive_field import log_receptive_field_share
        >>> round(log_receptive_field_share(torch.tensor([1.0, 1.0]), 0.5, 64), 2)
        -21.49
    """
    _check_width(d_model)
    values = eigenvalues.detach().cpu().double()
    if len(values) > d_model:
        raise ValueError(f"{len(values)} eigenvalues exceed d_model={d_model}; give the width of the tokens")
    values = values[values != 0]
    if len(values) == 1 and float(values) > 0:
        return log_slab_share(threshold / float(values), d_model)
    differences = torch.cat([values - threshold, values.new_tensor([-threshold])])
    counts = torch.cat([torch.ones_like(values), values.new_tensor([d_model - len(values)])])
    return _log_positive_share(differences, counts)


def _check_width(d_model: int) -> None:
    if d_model < 1:
        raise ValueError(f"d_model={d_model} is not positive; give the width of the tokens")


def _log_positive_share(differences: Tensor, counts: Tensor) -> float:
    """log P(Σ_j a_j χ²(n_j) > 0) for independent χ² with n_j degrees of freedom."""
    largest = float(differences.abs().max())
    present = (differences.abs() > NEGLIGIBLE * largest) & (counts > 0)
    differences, counts = differences[present], counts[present]
    if not bool((differences > 0).any()):
        return -math.inf
    if not bool((differences < 0).any()):
        return 0.0
    if float(differences @ counts) > 0:
        return math.log1p(-math.exp(_log_tail(-differences, counts)))
    return _log_tail(differences, counts)


def _log_tail(differences: Tensor, counts: Tensor) -> float:
    """log P(Σ_j a_j χ²(n_j) > 0) for a sum that has both signs and no positive mean."""
    differences = differences / differences.max()  # the sign of the sum does not depend on the scale
    saddle = _saddle(differences, counts)
    slopes = differences / (1 - 2 * differences * saddle)
    width = (float((2 * counts * slopes**2).sum()) + saddle**-2) ** -0.5
    v = _nodes(saddle, width, differences, counts)
    line = torch.complex(torch.full_like(v, saddle), width * torch.sinh(v))
    logs = _log_transform(line, differences, counts)
    heights = torch.exp(logs - logs[0].real).real * torch.cosh(v) * width
    heights[0] /= 2  # the line's other half is the mirror image: the trapezoid rule counts the middle once
    return float(logs[0].real) + math.log(float(heights.sum() * (v[1] - v[0])) / math.pi)


def _nodes(saddle: float, width: float, differences: Tensor, counts: Tensor) -> Tensor:
    """Even steps in v along s = s₀ + iσ sinh v, to where the integrand, whose size only falls, is below rounding."""
    coarse = torch.arange(0, LONGEST_LINE, COARSEST_STEP, dtype=torch.float64)
    line = torch.complex(torch.full_like(coarse, saddle), width * torch.sinh(coarse))
    logs = _log_transform(line, differences, counts).real
    end = coarse[logs - logs[0] + coarse > math.log(ROUNDING)][-1]
    # Up to there the phase turns √d times or so; the trapezoid rule converges once it resolves that.
    step = min(COARSEST_STEP, STEP_PER_ROOT * float(counts.sum()) ** -0.5)
    return torch.arange(0, float(end) + step, step, dtype=torch.float64)


def _log_transform(s: Tensor, differences: Tensor, counts: Tensor) -> Tensor:
    """log E[exp(s Σ a_j χ²_j)] − log s = −½ Σ_j n_j log(1 − 2 a_j s) − log s."""
    return -(counts * torch.log(1 - 2 * differences * s[..., None])).sum(-1) / 2 - torch.log(s)


def _saddle(differences: Tensor, counts: Tensor) -> float:
    """The minimum of the log transform on its real interval (0, 1/(2 max a)), where it is convex."""
    low, high = 0.0, 0.5
    for _ in range(SADDLE_STEPS):
        middle = (low + high) / 2
        slope = float((counts * differences / (1 - 2 * differences * middle)).sum()) - 1 / middle
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (low + high) / 2


def _log_beta_tail(threshold: float, d_model: int) -> float:
    """log P(B > t) for B ~ Beta(½, (d−1)/2), from whichever end converges fast."""
    half, rest = 0.5, (d_model - 1) / 2
    if threshold > (half + 1) / (half + rest + 2):
        return _log_incomplete_beta(rest, half, math.log1p(-threshold), math.log(threshold), 1 - threshold)
    below = _log_incomplete_beta(half, rest, math.log(threshold), math.log1p(-threshold), threshold)
    return math.log1p(-math.exp(below))


def _log_incomplete_beta(a: float, b: float, log_x: float, log_rest: float, x: float) -> float:
    """log I_x(a, b) by its continued fraction, for x < (a + 1)/(a + b + 2)."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return a * log_x + b * log_rest - math.log(a) - log_beta + math.log(_beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1/(1 + d₁/(1 + d₂/(1 + …))), evaluated forwards by Lentz's method."""
    value, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(1, FRACTION_STEPS):
        m = step // 2
        if step % 2:
            coefficient = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            coefficient = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + coefficient * denominator)
        numerator = 1 + coefficient / numerator
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-16:
            break
    return 1 / value
