"""The statistics of cones, interpolations and subsets, and how often chance makes them as large.

Cone: points along one ray from the centre, where the direction stays and the length varies. The leading ray of a cloud
is the direction about which most points lie. Of the points within WIDEST_ANGLE of it,

    elongation = (standard deviation along the ray) / (largest standard deviation across it).

A round cluster has 1 wherever it is, a slab that cuts a Gaussian has less, a ray or a narrow cone has more: its longest
direction points at the centre. How much more is chance depends on the covariance of the tokens and on the form, so the
elongation is judged by its excess over draws of Gaussian tokens through the same form. Heavy tails lengthen points
along any direction, so the same test is also made of structureless tokens with heavy tails, and counted beside.

Interpolation: a kind of token whose points span the path between those of two others. With a, b, c the mean points of
three kinds of tokens, b lies at the share t = (b − a)·(c − a)/‖c − a‖² of the path from a to c, and off it by
h = ‖b − a − t(c − a)‖. With σ∥ and σ⊥ the standard deviations of the middle kind's points along the path and across it
(per axis),

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

Subset: one token string on which a latent fires with both signs, and whose neighbours tell which sign.
For every token that fires on both sides of rest in enough documents, the statistic is the adjusted mutual information
between the sign and a neighbouring token,

    gain = (I − E I) / (H(sign) − E I),

with the expectation over permutations of the signs: 1 if the neighbour decides the sign, 0 by chance. The larger of the
gains from the token before and from the token after counts. Every document gives one point, so that a phrase that a
document repeats is not counted as many. The p-value is the share of permutations with a gain as large, times the number
of tokens tested.

An activation knows its context, so a form that nothing learned also fires with both signs for a reason. Whether a
latent separates senses better than that can be seen from the same count on forms with random directions.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

Array = np.ndarray

WIDEST_ANGLE = 60.0
"""Degrees about the ray within which points belong to it; a wider cone than this is a half-space."""
CORE_ANGLE = 20.0
"""Degrees within which points are counted to find the direction about which most lie."""
FEWEST_IN_CONE = 30
HEAVY_TAILS = 4
"""Degrees of freedom of the t distribution of tokens that have heavy tails and no structure."""

FEWEST_OF_KIND = 20
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

FEWEST_DOCUMENTS = 10
"""Documents of a token on each side."""
PERMUTATIONS = 999
SMALLEST_ROOM = 1e-6
"""Bits that must be left to explain beyond chance; below, a gain would be rounding."""
SMALLEST_GAIN = 0.1
"""Adjusted gain below which neighbours hardly tell the sign, however significant."""


def p_values(observed: Float[Array, " n"], by_chance: Float[Array, " r"]) -> Float[Array, " n"]:
    """p = (1 + number of chance values that are at least as large) / (1 + number of chance values); NaN stays NaN."""
    ordered = np.sort(by_chance)
    at_least = len(ordered) - np.searchsorted(ordered, observed, side="left")
    return np.where(np.isnan(observed), np.nan, (1 + at_least) / (1 + len(ordered)))


def corrected(p: Float[Array, " n"]) -> Float[Array, " n"]:
    """p-values after correction for the number of tests (Benjamini and Hochberg, 1995); NaN is no test.

    With p in ascending order, the i-th of m becomes the least of p_j·m/j over j ≥ i. Of the tests whose corrected value
    is at most q, a share of at most q is expected to be false.
    """
    after = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    after[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return after


class Ray(NamedTuple):
    """The direction about which most points of a cloud lie, and how they lie about it."""

    direction: Float64[Array, " a"]
    members: Bool[Array, " m"]
    """Points within WIDEST_ANGLE of it."""
    elongation: float
    """Standard deviation along the ray, divided by the largest one across it; NaN with too few points."""


def leading_ray(points: Float[Array, "m a"]) -> Ray:
    """The ray from the origin about which most points lie."""
    exact = points.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    units = exact / np.where(lengths > 0, lengths, 1)[:, None]
    n_near = (units @ units.T > np.cos(np.radians(CORE_ANGLE))).sum(1)
    direction = units[n_near.argmax()] if len(units) else np.zeros(points.shape[1])
    for _ in range(2):
        members = units @ direction > np.cos(np.radians(WIDEST_ANGLE))
        mean = exact[members].sum(0)
        direction = mean / max(np.linalg.norm(mean), np.finfo(float).tiny)
    members = units @ direction > np.cos(np.radians(WIDEST_ANGLE))
    return Ray(direction, members, elongation(exact[members], direction))


def elongation(points: Float64[Array, "m a"], direction: Float64[Array, " a"]) -> float:
    """Standard deviation of points along a direction, divided by the largest one across it."""
    if len(points) < FEWEST_IN_CONE or points.shape[1] < 2:
        return float("nan")
    along = points @ direction
    across = points - along[:, None] * direction
    widest = float(np.linalg.eigvalsh(np.cov(across.T))[-1])
    return float(along.std(ddof=1) / np.sqrt(max(widest, np.finfo(float).tiny)))


def with_heavy_tails(tokens: Float[Array, "n a"], degrees: int, generator: np.random.Generator) -> Float[Array, "n a"]:
    """Turn Gaussian tokens into those of a t distribution: every token is stretched by a factor of its own."""
    factors = np.sqrt(degrees / generator.chisquare(degrees, (len(tokens), 1)))
    return np.asarray(tokens * factors.astype(tokens.dtype))


class Excess(NamedTuple):
    """By how much log elongations exceed those of controls."""

    own: Float64[Array, " n"]
    """Of each latent, over the mean of its own controls."""
    by_chance: Float64[Array, " c"]
    """Of each control, over the mean of the other controls of its latent."""


def excess(own: Float64[Array, " n"], controls: Float64[Array, "n r"]) -> Excess:
    """Compare each elongation with two or more controls of its own, so that latents of different forms share one null.

    A control is compared with one value fewer than a latent is, which widens the null distribution a little and makes
    the test slightly conservative.
    """
    logs = np.log(controls)
    usual = logs.mean(1)
    others = (logs.sum(1, keepdims=True) - logs) / (logs.shape[1] - 1)
    differences = (logs - others).ravel()
    return Excess(np.log(own) - usual, differences[~np.isnan(differences)])


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
    chosen = names[largest[counts[largest] >= FEWEST_OF_KIND]].astype(np.int64)
    parts, n_axes = [points[kinds == kind].astype(np.float64) for kind in chosen], points.shape[1]
    means = np.array([part.mean(0) for part in parts]).reshape(-1, n_axes)
    return Clouds(chosen, means, np.array([np.cov(part.T) for part in parts]).reshape(-1, n_axes, n_axes))


def interpolation(
    points: Float[Array, "m a"], kinds: Int64[Array, " m"], generator: np.random.Generator
) -> Interpolation:
    """Test whether one kind of token spans the path between two others better than chance, on two axes or more."""
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


class Firing(NamedTuple):
    """Tokens on which a latent fires, strongest first."""

    tokens: Int64[Array, " m"]
    positive: Bool[Array, " m"]
    documents: Int64[Array, " m"]
    before: Int64[Array, " m"]
    """The token before, −1 at the beginning of a sequence."""
    after: Int64[Array, " m"]


class Subset(NamedTuple):
    """The token whose neighbours tell most about the sign."""

    gain: float
    """Adjusted mutual information as a share of the entropy of the sign; NaN if no token fires on both sides."""
    p_value: float
    token: int | None


def subset(firing: Firing, generator: np.random.Generator) -> Subset:
    """Test whether a token's context decides the sign with which it fires.

    Of the tokens with the smallest p-value, the one with the largest gain counts.
    """
    found = [separation(part, generator) for part in two_sided(firing)]
    if not found:
        return Subset(float("nan"), float("nan"), None)
    best = min(found, key=lambda each: (each.p_value, -each.gain))
    return best._replace(p_value=min(1.0, best.p_value * len(found)))


def two_sided(firing: Firing) -> list[Firing]:
    """The tokens that fire on both sides in enough documents; one point per document, its strongest."""
    parts = []
    for token in np.unique(firing.tokens):
        rows = np.flatnonzero(firing.tokens == token)
        rows = rows[np.unique(firing.documents[rows], return_index=True)[1]]
        n_positive = int(firing.positive[rows].sum())
        if min(n_positive, len(rows) - n_positive) >= FEWEST_DOCUMENTS:
            parts.append(Firing(*(column[rows] for column in firing)))
    return parts


def separation(part: Firing, generator: np.random.Generator) -> Subset:
    """How well the neighbours of one token tell its sign."""
    shuffled = generator.permuted(np.tile(part.positive, (PERMUTATIONS, 1)), axis=1)
    signs = np.vstack([part.positive, shuffled])
    gains = np.maximum(*(adjusted_gains(signs, neighbours) for neighbours in (part.before, part.after)))
    return Subset(float(gains[0]), float(p_values(gains[:1], gains[1:])[0]), int(part.tokens[0]))


def adjusted_gains(signs: Bool[Array, "s m"], neighbours: Int64[Array, " m"]) -> Float64[Array, " s"]:
    """Adjusted mutual information of each row of signs with the neighbours; all rows but the first are permutations."""
    kinds = np.unique(neighbours, return_inverse=True)[1]
    table = np.eye(int(kinds.max()) + 1)[kinds]
    positive, sizes = signs.astype(np.float64) @ table, table.sum(0)
    entropy = float(_binary_entropy(signs[:1].mean(1))[0])
    information = entropy - (_binary_entropy(positive / sizes) * sizes).sum(1) / len(neighbours)
    usual = information[1:].mean()
    if entropy - usual < SMALLEST_ROOM:  # every neighbour occurs once: any signs fit
        return np.zeros(len(signs))
    return np.asarray((information - usual) / (entropy - usual))


def _binary_entropy(share: Float64[Array, "..."]) -> Float64[Array, "..."]:
    inside = np.clip(share, 1e-300, 1 - 1e-16)
    return np.asarray(-inside * np.log2(inside) - (1 - inside) * np.log1p(-inside) / np.log(2))
