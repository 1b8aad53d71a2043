"""The best function of one number that is monotone on each side of one turning point, for many latents at once.

A monotone function, a square, a threshold, a bump and a ReLU are all such functions, so whatever they leave of a
latent's value is not a function of that one number. Tokens are sorted by the number and gathered into bins that are
fine at both ends, where the tokens with the largest values are. On the bins, isotonic regression (pool adjacent
violators) gives the errors of all prefixes in one sweep, so that every edge between two bins is tried as the turning
point. Between bins the function is linear; beyond the outermost it continues with their slope, so that a square is
still a square on the largest tokens of the other half.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64

Array = np.ndarray

MIDDLE_BINS = 200
"""Bins of equal size that a whole sample would have; smaller ones are added at both ends."""
SMALLEST_BIN = 1
GROWTH = 1.25
"""How much larger a bin is than the one outside it."""
OUTER_BINS = 6
"""Bins whose slope continues beyond the outermost."""


class Bins(NamedTuple):
    """Tokens sorted by some number, in bins; one row per number."""

    order: Int64[Array, "r n"]
    """Tokens in ascending order."""
    sizes: Int64[Array, " b"]
    """Tokens per bin, the same in every row."""
    positions: Float64[Array, "r b"]
    """Mean of the number in each bin."""
    means: Float64[Array, "r b"]
    """Mean of the value in each bin."""
    within: Float64[Array, " r"]
    """Sum over bins of the squared distances of values from the mean of their bin."""


class Turns(NamedTuple):
    """The best turning point of each row."""

    errors: Float64[Array, " r"]
    """Sum over tokens of the squared error of the best function."""
    places: Int64[Array, " r"]
    """Bins before the turning point; 0 and the number of bins where the best function is monotone."""
    signs: Float64[Array, " r"]
    """+1 if it falls before the turning point and rises after it, −1 if it rises and falls."""


class Curve(NamedTuple):
    """A function of one number, linear between knots and beyond the outermost."""

    knots: Float64[Array, " b"]
    values: Float64[Array, " b"]
    slopes: tuple[float, float]
    """Below the first knot and above the last."""

    def __call__(self, positions: Float[Array, " n"]) -> Float64[Array, " n"]:
        inside = np.interp(positions, self.knots, self.values)
        below = np.minimum(positions - self.knots[0], 0) * self.slopes[0]
        above = np.maximum(positions - self.knots[-1], 0) * self.slopes[1]
        return np.asarray(inside + below + above)


def bin_sizes(n: int) -> Int64[Array, " b"]:
    """Tokens per bin: small at both ends, growing towards the middle, n in all."""
    largest, size = max(SMALLEST_BIN, n // MIDDLE_BINS), float(SMALLEST_BIN)
    side: list[int] = []
    while size < largest and 2 * (sum(side) + round(size)) <= n // 2:
        side.append(round(size))
        size *= GROWTH
    middle = n - 2 * sum(side)
    count = max(1, round(middle / largest))
    edges = np.linspace(0, middle, count + 1).round().astype(np.int64)
    return np.concatenate([side, np.diff(edges), side[::-1]]).astype(np.int64)


def binned(positions: Float[Array, "r n"], values: Float[Array, "r n"]) -> Bins:
    """Sort the tokens of every row by position and gather them into bins."""
    n = positions.shape[1]
    sizes = bin_sizes(n)
    starts = sizes.cumsum() - sizes
    order = np.argsort(positions, axis=1)
    sums = np.add.reduceat(np.take_along_axis(positions, order, 1), starts, axis=1, dtype=np.float64)
    totals = np.add.reduceat(np.take_along_axis(values, order, 1), starts, axis=1, dtype=np.float64)
    squares = np.einsum("rn,rn->r", values, values, dtype=np.float64)
    return Bins(order, sizes, sums / sizes, totals / sizes, squares - (totals**2 / sizes).sum(1))


def turns(bins: Bins) -> Turns:
    """The best turning point of every row, by the error of the best function that turns there."""
    means, reverse = bins.means, bins.means[:, ::-1]
    errors = prefix_errors(np.concatenate([means, -means, reverse, -reverse]), (bins.sizes, bins.sizes[::-1]))
    rising, falling, falling_after, rising_after = np.split(errors, 4)
    both = np.stack([falling + rising_after[:, ::-1], rising + falling_after[:, ::-1]], axis=1)
    n_places = both.shape[2]
    best = both.reshape(len(means), -1).argmin(1)
    least = both.reshape(len(means), -1)[np.arange(len(means)), best]
    return Turns(bins.within + least, best % n_places, np.where(best < n_places, 1.0, -1.0))


def prefix_errors(
    means: Float64[Array, "q b"], sizes: tuple[Int64[Array, " b"], Int64[Array, " b"]]
) -> Float64[Array, "q b1"]:
    """Errors of the best rising function on the first 0, 1, … b bins of every row.

    Args:
        means: One row per function.
        sizes: Tokens per bin, of the first half of the rows and of the second.

    Returns:
        Sums of squared distances from the bins' means, by tokens.
    """
    rows, n_bins = means.shape
    weights = np.repeat(np.stack(sizes), rows // 2, axis=0).astype(np.float64)
    level, weight = np.empty((rows, n_bins)), np.empty((rows, n_bins))  # blocks of pooled bins, as stacks
    top = np.zeros(rows, dtype=np.int64)
    error, errors = np.zeros(rows), np.zeros((rows, n_bins + 1))
    every = np.arange(rows)
    for place in range(n_bins):
        level[every, top], weight[every, top] = means[:, place], weights[:, place]
        open_rows = every[(top > 0) & (level[every, top - 1] > means[:, place])]
        while len(open_rows):
            last = top[open_rows]
            own, below = level[open_rows, last], level[open_rows, last - 1]
            own_weight, below_weight = weight[open_rows, last], weight[open_rows, last - 1]
            both = own_weight + below_weight
            pooled = below + (own - below) * (own_weight / both)
            error[open_rows] += own_weight * below_weight / both * np.square(own - below)
            level[open_rows, last - 1], weight[open_rows, last - 1] = pooled, both
            top[open_rows] = last - 1
            open_rows = open_rows[(last > 1) & (level[open_rows, np.maximum(last - 2, 0)] > pooled)]
        top += 1
        errors[:, place + 1] = error
    return errors


def rising(bins: Bins, row: int) -> Curve:
    """The best rising function of one row."""
    return _curve(bins.positions[row], isotonic(bins.means[row], bins.sizes))


def curve(bins: Bins, found: Turns, row: int) -> Curve:
    """The best function of one row."""
    place, sign = int(found.places[row]), float(found.signs[row])
    means, weights = bins.means[row], bins.sizes
    values = np.concatenate(
        [
            -sign * isotonic(-sign * means[:place], weights[:place]),
            sign * isotonic(sign * means[place:], weights[place:]),
        ]
    )
    return _curve(bins.positions[row], values)


def _curve(knots: Float64[Array, " b"], values: Float64[Array, " b"]) -> Curve:
    low = _slope(knots[:OUTER_BINS], values[:OUTER_BINS])
    high = _slope(knots[: -OUTER_BINS - 1 : -1], values[: -OUTER_BINS - 1 : -1])
    return Curve(knots, values, (low, high))


def isotonic(values: Float64[Array, " b"], weights: Int64[Array, " b"]) -> Float64[Array, " b"]:
    """The rising sequence nearest to the values."""
    from scipy.optimize import isotonic_regression  # imported here: the import takes longer than most calls

    if len(values) < 2:
        return values
    return np.asarray(isotonic_regression(values, weights=weights).x)


def _slope(knots: Float64[Array, " o"], values: Float64[Array, " o"]) -> float:
    """Slope at the first knot of a parabola through the knots: that of a square grows beyond their mean slope."""
    scale = float(np.abs(knots - knots[0]).max())
    if scale <= 1e-9 * float(np.abs(knots).max()):
        return 0.0
    offsets = (knots - knots[0]) / scale
    centred = offsets - offsets.mean()
    mean_slope = float((centred * values).sum() / np.square(centred).sum() / scale)
    tangent = np.linalg.lstsq(np.stack([offsets**0, offsets, offsets**2], 1), values, rcond=None)[0][1] / scale
    # Between none and twice the mean slope, which is that of a parabola from its vertex: noise cannot run away.
    return float(np.clip(tangent / mean_slope, 0, 2) * mean_slope) if mean_slope else 0.0
