"""Cones: points that lie along one ray from the centre, where the direction stays and the length varies.

The leading ray of a cloud is the direction about which most points lie. Of the points within WIDEST_ANGLE of it,

    elongation = (standard deviation along the ray) / (largest standard deviation across it).

A round cluster has 1 wherever it is, a slab that cuts a Gaussian has less, a ray or a narrow cone has more: its longest
direction points at the centre. How much more is chance depends on the covariance of the tokens and on the form, so the
elongation is judged by its excess over draws of Gaussian tokens through the same form. Heavy tails lengthen points
along any direction, so the same test is also made of structureless tokens with heavy tails, and counted beside.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

Array = np.ndarray

WIDEST_ANGLE = 60.0
"""Degrees about the ray within which points belong to it; a wider cone than this is a half-space."""
CORE_ANGLE = 20.0
"""Degrees within which points are counted to find the direction about which most lie."""
FEWEST_POINTS = 30
HEAVY_TAILS = 4
"""Degrees of freedom of the t distribution of tokens that have heavy tails and no structure."""


class Ray(NamedTuple):
    """The direction about which most points of a cloud lie, and how they lie about it."""

    direction: Float64[Array, " a"]
    members: Bool[Array, " m"]
    """Points within WIDEST_ANGLE of it."""
    elongation: float
    """Standard deviation along the ray, divided by the largest one across it; NaN with too few points."""


def leading_ray(points: Float[Array, "m a"]) -> Ray:
    """Find the ray from the origin about which most points lie.

    Args:
        points: Coordinates about the centre.

    Returns:
        The ray.
    """
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
    if len(points) < FEWEST_POINTS or points.shape[1] < 2:
        return float("nan")
    along = points @ direction
    across = points - along[:, None] * direction
    widest = float(np.linalg.eigvalsh(np.cov(across.T))[-1])
    return float(along.std(ddof=1) / np.sqrt(max(widest, np.finfo(float).tiny)))


def with_heavy_tails(tokens: Float[Array, "n a"], degrees: int, generator: np.random.Generator) -> Float[Array, "n a"]:
    """Turn Gaussian tokens into tokens of a t distribution: every token is stretched by a factor of its own.

    Args:
        tokens: Standard normal numbers.
        degrees: Degrees of freedom; fewer have heavier tails.
        generator: Draws the factors.

    Returns:
        Tokens without structure, some of which are much longer than the others.
    """
    factors = np.sqrt(degrees / generator.chisquare(degrees, (len(tokens), 1)))
    return np.asarray(tokens * factors.astype(tokens.dtype))


class Excess(NamedTuple):
    """By how much log elongations exceed those of controls."""

    own: Float64[Array, " n"]
    """Of each latent, over the mean of its own controls."""
    by_chance: Float64[Array, " c"]
    """Of each control, over the mean of the other controls of its latent."""


def excess(own: Float64[Array, " n"], controls: Float64[Array, "n r"]) -> Excess:
    """Compare each elongation with its own controls, so that latents of different forms can share one null.

    Args:
        own: Elongation of every latent.
        controls: Elongations of its controls, two or more.

    Returns:
        Excess of the latents and of the controls. A control is compared with one value fewer than a latent is, which
        widens the null distribution a little and makes the test slightly conservative.
    """
    logs = np.log(controls)
    usual = logs.mean(1)
    others = (logs.sum(1, keepdims=True) - logs) / (logs.shape[1] - 1)
    differences = (logs - others).ravel()
    return Excess(np.log(own) - usual, differences[~np.isnan(differences)])
