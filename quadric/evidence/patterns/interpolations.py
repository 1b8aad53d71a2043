"""Interpolation: a kind of token whose points lie on the path between those of two others.

With a, b, c the mean points of three kinds of tokens, b lies at the share t = (b − a)·(c − a)/‖c − a‖² of the path from a to
c, and off it by

    offset = ‖b − a − t(c − a)‖ / ‖c − a‖.

A triple counts if b is in the middle part of the path and the three clouds are apart from each other. The statistic of a
latent is the smallest offset of its triples. On a plane, and still more on a line, something always lies between
something else, and among many kinds some triple is straight by chance. So the same minimum is taken over arrangements in
which the means are drawn from a Gaussian with their own covariance, while every cloud keeps its size.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64

from quadric.evidence.patterns.chance import p_values

Array = np.ndarray

FEWEST_POINTS = 20
"""Points of a kind of token, below which its mean is not used."""
MOST_KINDS = 12
"""Kinds of tokens per latent, those with the most points."""
MIDDLE = (0.25, 0.75)
"""Part of the path that counts as between."""
ARRANGEMENTS = 499
FEWEST_KINDS = 4
"""With three there is one triple, and its covariance is its own."""


class Clouds(NamedTuple):
    """Points of several kinds of tokens, by number of points descending."""

    kinds: Int64[Array, " t"]
    means: Float64[Array, "t a"]
    radii: Float64[Array, " t"]
    """Root mean square distance from the mean, per axis."""


class Interpolation(NamedTuple):
    """The straightest path between two kinds of tokens through a third."""

    offset: float
    """Distance of the middle one from the path, in lengths of the path; NaN if no triple counts."""
    p_value: float
    """Share of random arrangements with a path as straight; NaN if no triple counts."""
    kinds: tuple[int, int, int] | None
    """One end, the middle, the other end."""


def clouds(points: Float[Array, "m a"], kinds: Int64[Array, " m"]) -> Clouds:
    """Mean and radius of every kind of token that has enough points."""
    names, counts = np.unique(kinds, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MOST_KINDS]
    chosen = names[largest[counts[largest] >= FEWEST_POINTS]].astype(np.int64)
    parts = [points[kinds == kind].astype(np.float64) for kind in chosen]
    means = np.array([part.mean(0) for part in parts]).reshape(len(parts), points.shape[1])
    return Clouds(chosen, means, np.array([np.sqrt(part.var(0, ddof=1).mean()) for part in parts]))


def interpolation(
    points: Float[Array, "m a"], kinds: Int64[Array, " m"], generator: np.random.Generator
) -> Interpolation:
    """Test whether one kind of token lies between two others, closer to the path than chance.

    Args:
        points: Coordinates of a latent's points.
        kinds: The kind of token of each.
        generator: Draws the random arrangements.

    Returns:
        The straightest path, with its p-value.
    """
    found = clouds(points, kinds)
    if len(found.kinds) < FEWEST_KINDS:
        return Interpolation(float("nan"), float("nan"), None)
    triples = _triples(len(found.kinds))
    own = offsets(found.means[None], found.radii, triples)[0]
    best = int(own.argmin())
    if np.isinf(own[best]):
        return Interpolation(float("nan"), float("nan"), None)
    arranged = generator.multivariate_normal(
        found.means.mean(0), np.cov(found.means.T), (ARRANGEMENTS, len(found.means)), method="svd"
    )
    by_chance = offsets(arranged, found.radii, triples).min(1)
    p = p_values(-own[[best]], -by_chance)  # a smaller offset is the larger statistic
    first, middle, last = (int(found.kinds[place]) for place in triples[best])
    return Interpolation(float(own[best]), float(p[0]), (first, middle, last))


def _triples(n_kinds: int) -> Int64[Array, "r 3"]:
    """Every middle with every pair of others."""
    return np.array(
        [(a, b, c) for a, c in combinations(range(n_kinds), 2) for b in range(n_kinds) if b not in (a, c)]
    )


def offsets(
    means: Float64[Array, "s t a"], radii: Float64[Array, " t"], triples: Int64[Array, "r 3"]
) -> Float64[Array, "s r"]:
    """Offset of every triple in every arrangement; infinite where the triple does not count."""
    a, b, c = (means[:, triples[:, place]] for place in range(3))
    path, reached = c - a, b - a
    squared = np.maximum(np.square(path).sum(-1), np.finfo(float).tiny)
    share = (path * reached).sum(-1) / squared
    off = np.linalg.norm(reached - share[..., None] * path, axis=-1) / np.sqrt(squared)
    touching = radii[triples[:, :2]].sum(1), radii[triples[:, 1:]].sum(1)
    apart = (np.linalg.norm(b - a, axis=-1) > touching[0]) & (np.linalg.norm(c - b, axis=-1) > touching[1])
    return np.where(apart & (share >= MIDDLE[0]) & (share <= MIDDLE[1]), off, np.inf)
