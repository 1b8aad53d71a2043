"""What the points of a latent show in its axes: tokens that belong together, and shapes that are not a blob or a line.

A circle whose points all have the same value is invisible to whatever measures the value, and is exactly what one looks
for. So these numbers ask only about the points one sees, m strong tokens on two or three axes:

words      share of the ten nearest neighbours that have the same word, corrected for chance: 1 always, 0 chance
next words the same with the word that follows
order      by how many nats their entropy is below that of a Gaussian with their covariance: clusters, rings, curves,
           branches and heavy tails have more, a blob and a straight line about 0, an evenly filled box 0.3
thinness   how nearly the neighbours of a point lie on a line, in the plane of two axes in which they do so most: near 1
           on a curve, closed or open, about 0.65 in a blob. Axes are scaled first, so that a straight line is a blob

Order and thinness do not depend on the lengths of the axes. A latent's strongest tokens are chosen by its own form,
which leaves shells and lobes by itself, so every number says something only beside its controls: the same tokens on
random axes and on a direction with their leading components, and Gaussian tokens chosen by the same latent. The
principal axes of the same tokens are about as much as three straight axes can show.

What they miss: a curve that only four axes hold, or that has fewer points than the scatter about it; a curve through
evenly spread points of all three axes, where no plane shows it; meaning that is neither a word nor the next one.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64

Array = np.ndarray

NEIGHBOURS = 10
ALONG = 0.1
"""Share of the points that decide the direction of a curve; fewer see the scatter about it."""
SHOWN_AXES = 3
CLOSEST = 1e-3
"""Standard deviations below which two points count as one: copies of a text would make the entropy −∞."""
FEWEST_POINTS = 30
EULER = 0.5772156649015329


class Structure(NamedTuple):
    """What some points show; see the module for the meaning of the numbers."""

    words: float
    next_words: float
    order: float
    thinness: float


def structure(points: Float[Array, "m a"], words: Int64[Array, " m"], next_words: Int64[Array, " m"]) -> Structure:
    """Measure what a latent's points show.

    Args:
        points: Coordinates of its strongest tokens on two or three axes.
        words: A number for the word of each.
        next_words: A number for the word that follows each; −1 where none does.

    Returns:
        The four numbers; NaN where there are fewer than 30 points or the points do not vary.

    Example:
        >>> import numpy as np
        >>> from structure import structure
        >>> angle = np.linspace(0, 2 * np.pi, 600)
        >>> ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        >>> shown = structure(ring, (angle * 2).astype(np.int64), np.arange(600))
        >>> shown.words > 0.9, shown.next_words < 0.1, shown.thinness > 0.95
        (True, True, True)
    """
    followed = next_words >= 0
    return Structure(
        words=alike(points, words),
        next_words=alike(points[followed], next_words[followed]),
        order=order(points),
        thinness=thinness(points),
    )


def alike(points: Float[Array, "m a"], labels: Int64[Array, " m"], count: int = NEIGHBOURS) -> float:
    """Share of the nearest neighbours with the same label, (share − chance) / (1 − chance).

    Args:
        points: Coordinates.
        labels: A number per point.
        count: Neighbours per point.

    Returns:
        1 if all neighbours have the same label, 0 if as many as by chance; NaN with few points or one label.
    """
    m = len(points)
    if m < FEWEST_POINTS:
        return float("nan")
    sizes = np.unique(labels, return_counts=True)[1]
    chance = float((sizes * (sizes - 1)).sum() / (m * (m - 1)))
    if chance == 1:
        return float("nan")
    near, _ = nearest(points, count)
    share = float((labels[near] == labels[:, None]).mean())
    return (share - chance) / (1 - chance)


def order(points: Float[Array, "m a"]) -> float:
    """Entropy of a Gaussian with the points' covariance, minus their own by the distance of the tenth neighbour."""
    scaled = whitened(points)
    if scaled is None:
        return float("nan")
    m, a = scaled.shape
    _, distances = nearest(scaled, NEIGHBOURS)
    log_ball = {1: np.log(2), 2: np.log(np.pi), 3: np.log(4 * np.pi / 3)}[a]
    logs = np.log(np.maximum(distances[:, -1], CLOSEST)).mean()
    own = _digamma(m) - _digamma(NEIGHBOURS) + log_ball + a * logs
    return float(a / 2 * np.log(2 * np.pi * np.e) - own)


def thinness(points: Float[Array, "m a"]) -> float:
    """Mean share of the variance of a point's neighbours along their first component, in the thinnest plane."""
    if len(points) < FEWEST_POINTS:
        return float("nan")
    planes = (whitened(points[:, pair]) for pair in combinations(range(points.shape[1]), 2))
    return max((_along(plane) for plane in planes if plane is not None), default=float("nan"))


def nearest(points: Float[Array, "m a"], count: int) -> tuple[Int64[Array, "m c"], Float64[Array, "m c"]]:
    """The nearest other points of every point, and their distances, nearest first."""
    from scipy.spatial import KDTree  # imported here: the import takes longer than most calls

    count = min(count, len(points) - 1)
    distances, near = KDTree(points).query(points, k=count + 1)
    # A point is its own neighbour, though not always the first among copies: drop it, or the farthest.
    own = near == np.arange(len(points))[:, None]
    own[~own.any(1), -1] = True
    return near[~own].reshape(len(points), count), distances[~own].reshape(len(points), count)


def whitened(points: Float[Array, "m a"]) -> Float64[Array, "m a"] | None:
    """Points with unit covariance; None if there are few, or if they do not vary along some axis."""
    if len(points) < FEWEST_POINTS:
        return None
    exact = points.astype(np.float64)
    exact = exact - exact.mean(0)
    values, vectors = np.linalg.eigh(exact.T @ exact / len(exact))
    if values[0] <= 1e-10 * values[-1] or values[-1] == 0:
        return None
    return np.asarray(exact @ vectors / np.sqrt(values))


def leading_axes(tokens: Float[Array, "m d"], first: Float[Array, " d"] | None = None) -> Float64[Array, "d a"]:
    """Three axes of some tokens: their principal components, or a direction and those orthogonal to it.

    Args:
        tokens: The tokens, about any centre.
        first: The direction that comes first, as a TopK latent's does.

    Returns:
        Orthonormal columns.
    """
    exact = tokens.astype(np.float64)
    exact = exact - exact.mean(0)
    given = np.zeros((exact.shape[1], 0)) if first is None else (first / np.linalg.norm(first))[:, None]
    exact = exact - (exact @ given) @ given.T
    _, vectors = np.linalg.eigh(exact.T @ exact)
    return np.concatenate([given, vectors[:, ::-1]], axis=1)[:, :SHOWN_AXES]


def random_axes(d_model: int, generator: np.random.Generator) -> Float64[Array, "d a"]:
    """Three random orthonormal directions."""
    return np.asarray(np.linalg.qr(generator.standard_normal((d_model, SHOWN_AXES)))[0])


def gaussian_like(points: Float[Array, "m a"], generator: np.random.Generator) -> Float64[Array, "m a"]:
    """As many Gaussian points with the same mean and covariance: a blob of the same extent."""
    return np.asarray(generator.multivariate_normal(points.mean(0), np.cov(points.T), len(points)))


def _along(plane: Float64[Array, "m 2"]) -> float:
    near, _ = nearest(plane, round(ALONG * len(plane)))
    local = plane[near] - plane[near].mean(1, keepdims=True)
    values = np.linalg.eigvalsh(np.einsum("mci,mcj->mij", local, local))
    total = values.sum(1)
    varies = total > 0  # copies of one point lie on no line
    return float((values[varies, -1] / total[varies]).mean()) if varies.any() else float("nan")


def _digamma(n: int) -> float:
    """ψ of a whole number."""
    return float((1 / np.arange(1, n)).sum() - EULER)
