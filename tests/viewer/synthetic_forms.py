"""Quadrics of the synthetic site: six forms in turn, and a few latents with a linear part, copied or empty."""

from typing import NamedTuple

import numpy as np

from quadric.viewer.schema import EIGENVECTOR, LINEAR_DIRECTION, NO_AXIS

N_AXES = 8
COPIES = {13: 7, 19: 7, 38: 32}
"""Latents that copy an earlier one of the same form."""
SPECIAL = {9: "bowl", 10: "egg", 15: "half-space", 16: "pringle", 21: "empty", 26: "bowl", 28: "egg"}
"""Latents that have a linear part, or nothing at all."""
BOWL, EGG, HALF_SPACE, PRINGLE, EMPTY = 9, 10, 15, 16, 21


class Form(NamedTuple):
    """z = Σ(λ_j u_j² + slope_j u_j) + linear·w + constant, with w along a direction outside the eigenvectors."""

    eigenvalues: list[float]
    shape: str
    slopes: tuple[float, ...] = ()
    linear: float = 0.0
    constant: float = 0.0
    linear_place: int = 2
    """Which axis shows the linear direction: the third of a paraboloid, the first of a half-space."""


FORMS = {
    "circle": Form([0.9, 0.9], "ellipsoid"),
    "slab": Form([1.6], "slab"),
    "cone": Form([1.2, 0.7, -0.8], "hyperboloid"),
    "clusters": Form([1.0, 0.8, 0.6, 0.3, 0.1], "ellipsoid"),
    "saddle": Form([1.1, -1.0], "hyperboloid"),
    "diffuse": Form([0.5, -0.45, 0.4, -0.36, 0.33, 0.3, -0.28, 0.25], "hyperboloid"),
    "bowl": Form([1.3, 0.8], "elliptic paraboloid", linear=-0.7, constant=0.05),
    "egg": Form([1.2, 0.9, 0.7], "ellipsoid", slopes=(-0.5, 0.3, 0.2), constant=0.15),
    "half-space": Form([0.03, -0.02], "half-space", linear=0.9, constant=-0.1, linear_place=0),
    "pringle": Form([1.1, -0.9], "hyperbolic paraboloid", linear=0.6, constant=0.02),
    "empty": Form([], "empty"),
}
IN_TURN = ("circle", "slab", "cone", "clusters", "saddle", "diffuse")


class Axes(NamedTuple):
    """A latent's form on the axes that the viewer shows."""

    eigenvalues: np.ndarray
    quadratic: np.ndarray
    linear: np.ndarray
    kind: np.ndarray
    constant: float

    def values(self, coordinates: np.ndarray) -> np.ndarray:
        """z of points with coordinates (n, 8)."""
        z = np.square(coordinates) @ self.quadratic + coordinates @ self.linear + np.float32(self.constant)
        return z.astype(np.float32)


def form_name(index: int) -> str:
    return SPECIAL.get(index) or IN_TURN[index % len(IN_TURN)]


def axes_of(name: str, index: int) -> Axes:
    """The form's axes, with eigenvalues that differ from latent to latent of the same form."""
    form = FORMS[name]
    jitter = np.random.default_rng(index).uniform(0.6, 1.0, len(form.eigenvalues)) ** (name != "circle")
    values = np.array(form.eigenvalues) * jitter * (0.4 + 1.2 * np.exp(-index / 14))
    values = values[np.argsort(-np.abs(values), kind="stable")]
    quadratic, slopes, kinds = list(values), list(form.slopes), [EIGENVECTOR] * len(values)
    slopes += [0.0] * (len(values) - len(slopes))
    if form.linear:
        quadratic.insert(form.linear_place, 0.0)
        slopes.insert(form.linear_place, form.linear)
        kinds.insert(form.linear_place, LINEAR_DIRECTION)
    missing = (0, N_AXES - len(kinds))
    return Axes(
        values.astype(np.float32),
        np.pad(quadratic, missing).astype(np.float32),
        np.pad(slopes, missing).astype(np.float32),
        np.pad(kinds, missing, constant_values=NO_AXIS).astype(np.int32),
        form.constant,
    )
