"""Interpolation: a kind of token whose points span the path between those of two others.

With a, b, c the mean points of three kinds of tokens, b lies at the share t = (b − a)·(c − a)/‖c − a‖² of the path from
a to c, and off it by h = ‖b − a − t(c − a)‖. With σ∥ and σ⊥ the standard deviations of the middle kind's points along
the path and across it (per axis),

    stretch = σ∥ / √(h² + σ⊥²).

It is large where the middle cloud is drawn out along the path and centred on it. A triple counts if the ends are apart,
b is in the middle part of the path, and its cloud reaches towards the ends without passing them: σ∥ from 1/8 to 1/3 of
the path; points spread evenly over the whole path have 0.29. The statistic of a latent is the largest stretch of its
triples.

Where tokens lie along a line, something always spans the way between others, and among many triples one is good by
chance. So the same maximum is taken over arrangements in which the means are drawn from a Gaussian with their own
covariance, while every cloud keeps its size and orientation. p can be no smaller than 1 / (1 + arrangements), and one
latent among hundreds needs less than ARRANGEMENTS allow. So where few of those come close, FURTHER more are drawn.
Neither stage alone nor both together can make p ≤ α more frequent than α.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from quadric.evidence.patterns.chance import p_values

Array = np.ndarray

FEWEST_POINTS = 20
"""Points of a kind of token, below which it is not used."""
MOST_KINDS = 12
"""Kinds of tokens per latent, those with the most points."""
FEWEST_KINDS = 4
"""With three there is one triple, and the covariance of the means is its own."""
MIDDLE = (0.25, 0.75)
"""Part of the path in which the middle kind has its mean."""
REACH = (1 / 8, 1 / 3)
"""Standard deviation of the middle cloud along the path, in lengths of the path."""
ARRANGEMENTS = 499
FURTHER = 4_500
"""Arrangements that are drawn after the first, where p is at most PROMISING after those."""
PROMISING = 0.02


class Clouds(NamedTuple):
    """Points of several kinds of tokens, by number of points descending."""

    kinds: Int64[Array, " t"]
    means: Float64[Array, "t a"]
    covariances: Float64[Array, "t a a"]


class Interpolation(NamedTuple):
    """The path between two kinds of tokens that a third spans best."""

    stretch: float
    """Of the middle kind along the path; NaN if no triple counts."""
    p_value: float
    """Share of random arrangements with a path spanned as well; NaN if no triple counts."""
    kinds: tuple[int, int, int] | None
    """One end, the middle, the other end."""


def clouds(points: Float[Array, "m a"], kinds: Int64[Array, " m"]) -> Clouds:
    """Mean and covariance of every kind of token that has enough points."""
    names, counts = np.unique(kinds, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MOST_KINDS]
    chosen = names[largest[counts[largest] >= FEWEST_POINTS]].astype(np.int64)
    parts, n_axes = [points[kinds == kind].astype(np.float64) for kind in chosen], points.shape[1]
    means = np.array([part.mean(0) for part in parts]).reshape(-1, n_axes)
    return Clouds(chosen, means, np.array([np.cov(part.T) for part in parts]).reshape(-1, n_axes, n_axes))


def interpolation(
    points: Float[Array, "m a"], kinds: Int64[Array, " m"], generator: np.random.Generator
) -> Interpolation:
    """Test whether one kind of token spans the path between two others better than chance.

    Args:
        points: Coordinates of a latent's points, on two axes or more.
        kinds: The kind of token of each.
        generator: Draws the random arrangements.

    Returns:
        The path that is spanned best, with its p-value.
    """
    found = clouds(points, kinds)
    if len(found.kinds) < FEWEST_KINDS:
        return Interpolation(float("nan"), float("nan"), None)
    triples = _triples(len(found.kinds))
    own = stretches(found.means[None], found.covariances, triples)[0]
    best = int(own.argmax())
    if own[best] == 0:
        return Interpolation(float("nan"), float("nan"), None)
    p = _p_value(own[best], found, triples, generator)
    first, middle, last = (int(found.kinds[place]) for place in triples[best])
    return Interpolation(float(own[best]), p, (first, middle, last))


def _p_value(stretch: float, found: Clouds, triples: Int64[Array, "r 3"], generator: np.random.Generator) -> float:
    """Share of random arrangements whose best path is spanned as well; of more of them where that is small."""
    further = generator.spawn(1)[0]  # a generator of its own: what comes after does not depend on how many are drawn
    by_chance = _best_by_chance(found, triples, ARRANGEMENTS, generator)
    p = p_values(np.array([stretch]), by_chance)
    if p[0] <= PROMISING:
        # In parts, since every arrangement takes an array over all triples.
        parts = [_best_by_chance(found, triples, FURTHER // 9, further) for _ in range(9)]
        p = p_values(np.array([stretch]), np.concatenate([by_chance, *parts]))
    return float(p[0])


def _best_by_chance(
    found: Clouds, triples: Int64[Array, "r 3"], count: int, generator: np.random.Generator
) -> Float64[Array, " s"]:
    """The largest stretch in each of some arrangements of the means, which a Gaussian with their covariance draws."""
    arranged = generator.multivariate_normal(
        found.means.mean(0), np.cov(found.means.T), (count, len(found.means)), method="svd"
    )
    return np.asarray(stretches(arranged, found.covariances, triples).max(1))


def _triples(n_kinds: int) -> Int64[Array, "r 3"]:
    """Every middle with every pair of others."""
    return np.array([(a, b, c) for a, c in combinations(range(n_kinds), 2) for b in range(n_kinds) if b not in (a, c)])


def stretches(
    means: Float64[Array, "s t a"], covariances: Float64[Array, "t a a"], triples: Int64[Array, "r 3"]
) -> Float64[Array, "s r"]:
    """Stretch of every triple in every arrangement; 0 where the triple does not count."""
    a, b, c = (means[:, triples[:, place]] for place in range(3))
    length = np.maximum(np.linalg.norm(c - a, axis=-1), np.finfo(float).tiny)
    path = (c - a) / length[..., None]
    reached = ((b - a) * path).sum(-1)
    off = np.square(b - a - reached[..., None] * path).sum(-1)
    middle, total = covariances[triples[:, 1]], np.trace(covariances, axis1=1, axis2=2)
    along = ((path[..., None, :] @ middle)[..., 0, :] * path).sum(-1)
    across = (total[triples[:, 1]] - along) / (means.shape[-1] - 1)
    radii = np.sqrt(total / means.shape[-1])
    apart = length > 2 * (radii[triples[:, 0]] + radii[triples[:, 2]])
    reach = np.sqrt(along) / length
    counts = apart & _inside(reached / length, MIDDLE) & _inside(reach, REACH)
    return np.where(counts, np.sqrt(along / np.maximum(off + across, np.finfo(float).tiny)), 0)


def _inside(values: Float64[Array, "..."], limits: tuple[float, float]) -> Bool[Array, "..."]:
    return (values >= limits[0]) & (values <= limits[1])
