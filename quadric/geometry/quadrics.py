"""A latent as a quadric about a centre: its quadratic, linear and constant part, its shape, and how curved it is.

In coordinates v about the centre, with a constant c beside them (see `quadric.autoencoders.lens`),

    z = vᵀQv + c·bᵀv + c²a.

With the eigenpairs (λ_j, q_j) of Q that count, b = b_∥ + b_⊥ inside and outside their span. The quadric has its centre
at v₀ = −(c/2)Q⁺b, the value there is z₀ = c²a − (c²/4)bᵀQ⁺b, and the level set of τ is

    Σ_j λ_j (q_j·(v − v₀))² + c·b_⊥·v = τ − z₀.

A raw form, without a lens, is read about a given centre μ: with m = μ/‖μ‖ and p = I − mmᵀ, Q = pWp, b/2 = pWm,
a = mᵀWm, v = pu, and m·u, whose mean is ‖μ‖, plays the part of c.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.geometry.dictionary import require_bilinear

QuadricShape = Literal[
    "empty",
    "constant",
    "half-space",
    "slab",
    "ellipsoid",
    "hyperboloid",
    "elliptic paraboloid",
    "hyperbolic paraboloid",
]

DEFAULT_TOLERANCE = 0.05
"""Share of a latent's variation that a shape may leave out: eigenvalues by their share of Σ|λ|, the linear part outside
their span and the whole quadratic part by their share of the variance of z."""


class AffineForm(NamedTuple):
    """z = vᵀQv + c·bᵀv + c²a, with Q kept by its eigenpairs."""

    eigenvalues: Float[Tensor, " r"]
    """Of Q, by |λ| descending."""
    eigenvectors: Float[Tensor, "w r"]
    linear: Float[Tensor, " w"]
    """b."""
    constant: float
    """a."""
    scale: float
    """c."""

    def __call__(self, v: Float[Tensor, "n w"]) -> Float[Tensor, " n"]:
        quadratic = (v @ self.eigenvectors).square() @ self.eigenvalues
        return quadratic + self.scale * (v @ self.linear) + self.scale**2 * self.constant


@dataclass(frozen=True, kw_only=True, eq=False)
class Quadric:
    """The level sets of a latent, about their centre."""

    shape: QuadricShape
    centre: Float[Tensor, " w"]
    """v₀, in coordinates about the centre of the tokens; zero where the shape has none."""
    value_at_centre: float
    """z₀."""
    axes: Float[Tensor, "w r"]
    """The eigenvectors that count, as columns, by |λ| descending."""
    eigenvalues: Float[Tensor, " r"]
    """λ of each axis."""
    direction: Float[Tensor, " w"]
    """b_⊥: along it a paraboloid opens, and a half-space begins; zero for the other shapes."""
    curvature: float
    """Share of the variance of z that no linear function explains, were the tokens Gaussian with the given spread."""
    form: AffineForm
    tolerance: float

    @property
    def radii(self) -> Float[Tensor, " r"]:
        """1/√|λ_j|: distance from the centre at which an axis meets the level set z₀ ± 1."""
        return self.eigenvalues.abs().rsqrt()

    @property
    def is_cylinder(self) -> bool:
        """Whether the level sets go on for ever along some direction of the space."""
        own = len(self.eigenvalues) + int(bool(self.direction.any()))
        return own < len(self.centre)

    def __repr__(self) -> str:
        rank = len(self.eigenvalues)
        return (
            f"Quadric({self.shape}, {rank} axes, curvature {self.curvature:.2f}, "
            f"z = {self.value_at_centre:.3g} at its centre)"
        )


def read(
    autoencoder: Autoencoder,
    latent: int,
    centre: Float[Tensor, " d"] | None = None,
    *,
    covariance: Float[Tensor, "..."] | float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Quadric:
    """Read a latent as a quadric about the centre of the tokens.

    Args:
        autoencoder: A bilinear autoencoder.
        latent: Index of the latent.
        centre: Mean of the unit tokens that it reads; the origin if left out.
        covariance: Of the unit tokens about the centre: a matrix (d, d), d variances, or one variance for all. By
            default all directions have the same, (1 − ‖centre‖²)/d.
        tolerance: Share of a latent's variation that its shape may leave out.

    Returns:
        Shape, centre, axes, radii and curvature.

    Example:
        ```python
        import torch
        import quadric

        x = torch.nn.functional.normalize(torch.randn(500, 8) + 2, dim=1)
        ae = quadric.fit(x, n_latents=6, steps=5)
        print(quadric.geometry.read(ae, 0, centre=x.mean(0)))
        ```
    """
    matrix = require_bilinear(autoencoder).form(latent).cpu()
    centre = torch.zeros(len(matrix)) if centre is None else centre.detach().cpu()
    if covariance is None:
        covariance = max(1e-6, 1 - float(centre.double().square().sum())) / len(matrix)
    return read_quadric(raw_affine_form(matrix, centre), covariance, tolerance)


def raw_affine_form(matrix: Float[Tensor, "d d"], centre: Float[Tensor, " d"]) -> AffineForm:
    """A raw form read about a centre μ: v = pu lies perpendicular to it, and m·u ≈ ‖μ‖ stands beside."""
    matrix, centre = matrix.double(), centre.double()
    length = float(torch.linalg.vector_norm(centre))
    if length == 0:
        return _affine_form(matrix, torch.zeros_like(centre), 0.0, 1.0)
    m = centre / length
    across = matrix @ m
    constant = float(m @ across)
    beside = across - constant * m
    quadratic = matrix - across.outer(m) - m.outer(across) + constant * m.outer(m)
    return _affine_form(quadratic, 2 * beside, constant, length)


def lens_affine_form(matrix: Float[Tensor, "w w"], scale: float) -> AffineForm:
    """A form in the coordinates [v; c] of an affine lens."""
    matrix = matrix.double()
    return _affine_form(matrix[:-1, :-1], 2 * matrix[:-1, -1], float(matrix[-1, -1]), scale)


def _affine_form(quadratic: Tensor, linear: Tensor, constant: float, scale: float) -> AffineForm:
    values, vectors = torch.linalg.eigh(quadratic)
    order = values.abs().argsort(descending=True, stable=True)
    return AffineForm(values[order], vectors[:, order], linear, constant, scale)


def read_quadric(
    form: AffineForm,
    covariance: Float[Tensor, "..."] | float = 1.0,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Quadric:
    """Shape, centre, axes and curvature of an affine form.

    `covariance` is that of the coordinates v: a matrix, their variances, or one variance for all. Whether a curved part
    matters depends on how far tokens go along it.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance={tolerance} is not in [0, 1); it is a share, e.g. {DEFAULT_TOLERANCE}")
    spread = _covariance(covariance, len(form.linear))
    along = form.eigenvectors.mT @ spread @ form.eigenvectors
    curved = 2 * float((form.eigenvalues.outer(form.eigenvalues) * along.square()).sum())
    total = curved + form.scale**2 * float(form.linear @ spread @ form.linear)
    curvature = curved / total if total else 0.0
    counted = _counted(form.eigenvalues * along.diagonal(), tolerance) if curvature > tolerance else slice(0, 0)
    values, axes = form.eigenvalues[counted], form.eigenvectors[:, counted]
    inside = axes.mT @ form.linear
    outside = form.linear - axes @ inside
    if form.scale**2 * float(outside @ spread @ outside) <= tolerance * total:
        outside = torch.zeros_like(outside)
    offsets = -form.scale / 2 * inside / values
    return Quadric(
        shape=_shape(values, bool(outside.any()), form),
        centre=axes @ offsets,
        value_at_centre=form.scale**2 * form.constant - float((values * offsets.square()).sum()),
        axes=axes,
        eigenvalues=values,
        direction=outside,
        curvature=curvature,
        form=form,
        tolerance=tolerance,
    )


def _covariance(given: Tensor | float, width: int) -> Float[Tensor, "w w"]:
    values = torch.as_tensor(given, dtype=torch.float64)
    return values if values.ndim == 2 else values.expand(width).diag()


def _counted(weights: Float[Tensor, " r"], tolerance: float) -> slice | Tensor:
    """The fewest eigenvalues, largest first, whose |weight| makes up all but the tolerance of the sum."""
    order = weights.abs().argsort(descending=True, stable=True)
    shares = weights.abs()[order].cumsum(0) / weights.abs().sum()
    n_counted = int((shares < 1 - tolerance).sum()) + 1
    return order[:n_counted].sort().values


def _shape(values: Float[Tensor, " r"], opens: bool, form: AffineForm) -> QuadricShape:
    both_signs = bool((values > 0).any() and (values < 0).any())
    if not len(values):
        if opens:
            return "half-space"
        return "constant" if form.constant else "empty"
    if opens:
        return "hyperbolic paraboloid" if both_signs else "elliptic paraboloid"
    if both_signs:
        return "hyperboloid"
    return "slab" if len(values) == 1 else "ellipsoid"
