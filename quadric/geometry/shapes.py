"""The shape of a latent: the kind of quadric that its level sets are, from the signs of its eigenvalues.

W and −W give the same autoencoder (z_i W_i does not change), so a semidefinite form is a slab or an ellipsoid
whatever its sign; the sign is recorded.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from quadric.geometry.eigenpairs import Eigenpairs

ShapeKind = Literal["empty", "slab", "ellipsoid", "hyperboloid"]

DEFAULT_TOLERANCE = 1e-3
"""Share of the largest |λ| below which an eigenvalue counts as zero: an axis 30 times as long as the shortest."""


class Shape(NamedTuple):
    """What {x : xᵀWx = τ} looks like in the latent's own subspace, the span of its non-zero eigenvectors."""

    kind: ShapeKind
    """slab: one eigenvalue; ellipsoid: several of one sign; hyperboloid: both signs; empty: none."""
    positive: int
    """Number of positive eigenvalues."""
    negative: int
    """Number of negative eigenvalues."""
    round: bool
    """Whether all non-zero |λ| are equal, within the tolerance."""
    tolerance: float
    """Share of the largest |λ| below which an eigenvalue counted as zero."""

    @property
    def dimension(self) -> int:
        """Dimension of the latent's own subspace; the shape extends without limit along all other directions."""
        return self.positive + self.negative

    @property
    def sign(self) -> int:
        """+1 or −1 for a semidefinite form, 0 for a form with both signs or none."""
        return (self.positive > 0) - (self.negative > 0)

    @property
    def figure(self) -> str:
        """The specific name: slab, circle, ellipse, sphere, ellipsoid, hyperbola or hyperboloid."""
        if self.kind == "ellipsoid" and self.dimension <= 3:
            names = {2: ("ellipse", "circle"), 3: ("ellipsoid", "sphere")}
            return names[self.dimension][self.round]
        return "hyperbola" if self.kind == "hyperboloid" and self.dimension == 2 else self.kind


def shape_of(eigenvalues: Float[Tensor, " r"], tolerance: float = DEFAULT_TOLERANCE) -> Shape:
    """The shape described by eigenvalues, which may be in any order."""
    check_tolerance(tolerance)
    sizes = eigenvalues.abs()
    largest = float(sizes.max()) if len(sizes) else 0.0
    counted = eigenvalues[sizes > tolerance * largest]
    positive, negative = int((counted > 0).sum()), int((counted < 0).sum())
    is_round = len(counted) > 0 and float(counted.abs().min()) >= (1 - tolerance) * largest
    return Shape(_kind(positive, negative), positive, negative, is_round, tolerance)


def _kind(positive: int, negative: int) -> ShapeKind:
    if positive and negative:
        return "hyperboloid"
    if positive + negative == 1:
        return "slab"
    return "ellipsoid" if positive + negative else "empty"


def check_tolerance(tolerance: float) -> None:
    """Raise unless the tolerance is a share below one."""
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance={tolerance} is not in [0, 1); it is a share of the largest |λ|, e.g. 0.001")


class LevelSet(NamedTuple):
    """{x : xᵀWx = τ} in closed form: Σ_j ±(a_j·x / radius_j)² = 1 over the axes a_j, + where the axis meets it."""

    axes: Float[Tensor, "d r"]
    """The latent's eigenvectors, as columns."""
    radii: Float[Tensor, " r"]
    """√|τ/λ_j|: distance from the origin at which an axis meets the set, or the conjugate radius if it never does."""
    meets: Bool[Tensor, " r"]
    """Whether the set meets the axis: λ_j has the sign of τ."""

    def __repr__(self) -> str:
        radii = ", ".join(f"{radius:.3g}" for radius in self.radii[:5].tolist())
        more = ", …" if len(self.radii) > 5 else ""
        return f"LevelSet({len(self.radii)} axes, {int(self.meets.sum())} meet the set: radii {radii or 'none'}{more})"

    @property
    def is_empty(self) -> bool:
        """Whether no point reaches the threshold."""
        return not bool(self.meets.any())


def level_set(pairs: Eigenpairs, threshold: float, tolerance: float = DEFAULT_TOLERANCE) -> LevelSet:
    """Axes and radii of {x : xᵀWx = τ}; eigenvalues within the tolerance of zero have no axis."""
    check_tolerance(tolerance)
    if threshold == 0:
        raise ValueError("the level set at threshold=0 is a cone, which has no radii; give a threshold ≠ 0")
    sizes = pairs.eigenvalues.abs()
    counted = sizes > tolerance * (sizes.max() if len(sizes) else 0)
    values = pairs.eigenvalues[counted]
    return LevelSet(
        axes=pairs.eigenvectors[:, counted],
        radii=torch.sqrt(abs(threshold) / values.abs()),
        meets=(values > 0) == (threshold > 0),
    )
