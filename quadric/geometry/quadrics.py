"""A latent as a quadric about a centre: its quadratic, linear and constant part, its shape, and how curved it is.

In coordinates v about the centre, with a constant c beside them (see `quadric.model.lens`),

    z = vᵀQv + c·bᵀv + c²a.

With the eigenpairs (λ_j, q_j) of Q that count, b = b_∥ + b_⊥ inside and outside their span. The quadric has its centre
at v₀ = −(c/2)Q⁺b, the value there is z₀ = c²a − (c²/4)bᵀQ⁺b, and the level set of τ is

    Σ_j λ_j (q_j·(v − v₀))² + c·b_⊥·v = τ − z₀.

A raw form, without a lens, is read about a given centre μ: with m = μ/‖μ‖ and p = I − mmᵀ, Q = pWp, b/2 = pWm,
a = mᵀWm, v = pu, and m·u, whose mean is ‖μ‖, plays the part of c.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.centring import CentreLike, Centring, centred_factors, centring_of, directions_of
from quadric.geometry.dictionary import require_forms
from quadric.geometry.shapes import DEFAULT_TOLERANCE, QuadricShape, Shape, read_shapes
from quadric.model import Dictionary
from quadric.model.forms import Directions, Forms


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
    signature: Shape
    """The shape with the numbers of positive and negative eigenvalues, and its specific name, e.g. circle."""
    form: AffineForm
    tolerance: float

    @property
    def radii(self) -> Float[Tensor, " r"]:
        """1/√|λ_j|: distance from the centre at which an axis meets the level set z₀ ± 1."""
        return self.eigenvalues.abs().rsqrt()

    @property
    def quadratic(self) -> Float[Tensor, "w w"]:
        """Q."""
        return (self.form.eigenvectors * self.form.eigenvalues) @ self.form.eigenvectors.mT

    @property
    def linear(self) -> Float[Tensor, " w"]:
        """c·b: the gradient of z at the centre of the tokens."""
        return self.form.scale * self.form.linear

    @property
    def constant(self) -> float:
        """c²a: z at the centre of the tokens."""
        return self.form.scale**2 * self.form.constant

    def __repr__(self) -> str:
        rank = len(self.eigenvalues)
        return (
            f"Quadric({self.shape}, {rank} axes, curvature {self.curvature:.2f}, "
            f"z = {self.value_at_centre:.3g} at its centre)"
        )


def read(
    autoencoder: Dictionary | Forms,
    latent: int,
    centre: CentreLike | None = None,
    *,
    covariance: Float[Tensor, "..."] | float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Quadric:
    """Read a latent as a quadric about the centre of the tokens.

    Args:
        autoencoder: Any dictionary; a latent of a linear one is read before its gate, as a half-space.
        latent: Index of the latent.
        centre: Mean of the unit tokens that a raw dictionary reads, or a `Centre` with their covariance; the origin if
            left out. An affine lens has its own centre, constant and covariance, which are used.
        covariance: Of the unit tokens about the centre: a matrix (d, d), d variances, or one variance for all. By
            default the lens's or the centre's; without, all directions have the same, (1 − ‖centre‖²)/d.
        tolerance: Share of a latent's variance that each part left out of its shape may have.

    Returns:
        Shape, centre, axes, radii and curvature.

    Example:
        >>> found = geometry.read(ae, 0)
        >>> found.shape in geometry.SHAPES
        True
    """
    if not 0 <= latent < autoencoder.n_latents:
        raise IndexError(f"latent {latent} is outside 0 … {autoencoder.n_latents - 1}")
    centring = centring_of(autoencoder, centre)
    directions = autoencoder if isinstance(autoencoder, Forms) else autoencoder.forms()
    if isinstance(directions, Directions):
        form = direction_form(directions, latent, centring)
    else:
        form = _centred_form(require_forms(autoencoder), latent, centring)
    return read_quadric(form, centring.covariance if covariance is None else covariance, tolerance)


def direction_form(directions: Directions, latent: int, centring: Centring) -> AffineForm:
    """A latent of a linear dictionary before its gate: no quadratic part, and b the row of the encoder."""
    found = directions_of(directions, centring.centre, slice(latent, latent + 1))
    nothing = found.reads.new_zeros(0)
    return AffineForm(nothing, found.reads.new_zeros(directions.d_model, 0), found.reads[0], float(found.constant), 1.0)


def _centred_form(bilinear: Forms, latent: int, centring: Centring) -> AffineForm:
    atoms, weights = bilinear.mixing.row(latent)
    left, right = (factors[atoms].double().cpu() for factors in centred_factors(bilinear, centring))
    half = left.mT @ (weights.detach().double().cpu()[:, None] * right)
    return lens_affine_form((half + half.mT) / 2, centring.scale)


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

    Args:
        form: Quadratic, linear and constant part in coordinates v.
        covariance: Of the coordinates v: a matrix, their variances, or one variance for all. Whether a curved part
            matters depends on how far tokens go along it.
        tolerance: Share of the variance that each part left out of the shape may have.

    Returns:
        The quadric.
    """
    basis, values = _basis_with_linear_part(form)
    spread = basis.mT @ _covariance(covariance, len(form.linear)) @ basis
    beta = form.linear @ basis
    constant = torch.tensor([form.constant], dtype=torch.float64)
    found = read_shapes(values[None], beta[None], constant, form.scale, spread[None], tolerance)
    counted, outside = found.counted[0], found.outside[0]
    axes, own = basis[:, counted], values[counted]
    offsets = -form.scale / 2 * beta[counted] / own
    signature = found.columns.shape_of(0, tolerance)
    return Quadric(
        shape=signature.kind,
        centre=axes @ offsets,
        value_at_centre=form.scale**2 * form.constant - float((own * offsets.square()).sum()),
        axes=axes,
        eigenvalues=own,
        direction=basis @ outside,
        curvature=float(found.columns.curvature[0]),
        signature=signature,
        form=form,
        tolerance=tolerance,
    )


def _basis_with_linear_part(form: AffineForm) -> tuple[Float[Tensor, "w r"], Float[Tensor, " r"]]:
    """The eigenvectors, and one more with λ = 0 if b has a part outside their span."""
    beyond = form.linear - form.eigenvectors @ (form.eigenvectors.mT @ form.linear)
    length = torch.linalg.vector_norm(beyond)
    if length <= 1e-12 * torch.linalg.vector_norm(form.linear):
        return form.eigenvectors, form.eigenvalues
    basis = torch.cat([form.eigenvectors, (beyond / length)[:, None]], dim=1)
    return basis, torch.nn.functional.pad(form.eigenvalues, (0, 1))


def _covariance(given: Tensor | float, width: int) -> Float[Tensor, "w w"]:
    values = torch.as_tensor(given, dtype=torch.float64)
    return values if values.ndim == 2 else values.expand(width).diag()
