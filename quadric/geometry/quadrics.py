"""One latent about a centre: as a quadric, and in the frame of axes in which it is shown.

A quadric has a quadratic, a linear and a constant part, a shape, and a curvature.

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
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.axes import NO_AXIS
from quadric.geometry.centring import CentreLike, Centring, centred_factors, centring_of, directions_of
from quadric.geometry.decomposition import KEPT_AXES, Part, decompose_batch, directions_part, linear_and_constant
from quadric.geometry.dictionary import Terms, forms_or_directions, require_forms
from quadric.geometry.forms import Form
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
    tolerance: float = DEFAULT_TOLERANCE,
) -> Quadric:
    """Read a latent as a quadric about the centre of the tokens.

    Args:
        autoencoder: Any dictionary; a latent of a linear one is read before its gate, as a half-space.
        latent: Index of the latent.
        centre: Mean of the unit tokens that a raw dictionary reads, or a `Centre` with their covariance; the origin if
            left out. An affine lens has its own, which is used. Without a covariance all directions have the same
            variance, (1 − ‖centre‖²)/d.
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
    directions = forms_or_directions(autoencoder)
    if isinstance(directions, Directions):
        form = direction_form(directions, latent, centring)
    else:
        form = _centred_form(require_forms(autoencoder), latent, centring)
    return read_quadric(form, centring.covariance, tolerance)


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
    values, vectors = torch.linalg.eigh(matrix[:-1, :-1])
    order = values.abs().argsort(descending=True, stable=True)
    return AffineForm(values[order], vectors[:, order], 2 * matrix[:-1, -1], float(matrix[-1, -1]), scale)


def read_quadric(
    form: AffineForm, covariance: Float[Tensor, "w w"] | float = 1.0, tolerance: float = DEFAULT_TOLERANCE
) -> Quadric:
    """Shape, centre, axes and curvature of an affine form, where v has a covariance or one variance for all directions.

    Whether a curved part matters depends on how far tokens go along it.
    """
    basis, values = _basis_with_linear_part(form)
    if isinstance(covariance, float):
        covariance = covariance * torch.eye(len(form.linear), dtype=torch.float64)
    spread = basis.mT @ covariance.double() @ basis
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


class LatentFrame(NamedTuple):
    """One latent about the centre, as `Decomposition` has it for all; float64."""

    eigenvalues: Float[Tensor, " r"]
    axes: Float[Tensor, "d a"]
    axis_quadratic: Float[Tensor, " a"]
    axis_linear: Float[Tensor, " a"]
    axis_kind: Int[Tensor, " a"]
    linear: Float[Tensor, " d"]
    """c·b, the gradient of z at the centre."""
    constant: float
    curvature: float
    shape: Shape
    centring: Centring

    def with_sign(self, sign: float) -> "LatentFrame":
        """The same latent as −z, if the sign is negative."""
        if sign > 0:
            return self
        shape = self.shape._replace(positive=self.shape.negative, negative=self.shape.positive)
        return self._replace(
            eigenvalues=-self.eigenvalues,
            axis_quadratic=-self.axis_quadratic,
            axis_linear=-self.axis_linear,
            linear=-self.linear,
            constant=-self.constant,
            shape=shape,
        )

    def __repr__(self) -> str:
        return f"LatentFrame({self.shape.kind}, {int((self.axis_kind != NO_AXIS).sum())} axes)"


@torch.no_grad()
def latent_frame(
    autoencoder: Dictionary, latent: int, n_axes: int = KEPT_AXES, centre: CentreLike | None = None
) -> LatentFrame:
    """The axes and coefficients of one latent, without decomposing the others; `centre` is that of `decompose`."""
    centring = centring_of(autoencoder, centre)
    directions = autoencoder.forms()
    if isinstance(directions, Directions):
        only = slice(latent, latent + 1)
        part, values = directions_part(directions, centring, n_axes, only)
        return _only_frame(part, values, directions_of(directions, centring.centre, only).reads[0], centring)
    bilinear = require_forms(autoencoder)
    atoms, weights = bilinear.mixing.row(latent)
    left, right = (factors[atoms].double() for factors in centred_factors(bilinear, centring))
    return _frame_of(left, right, weights.detach().double().to(left.device), centring, n_axes)


@torch.no_grad()
def form_frame(form: Form, n_axes: int = KEPT_AXES) -> LatentFrame:
    """The axes and coefficients of a form, such as a sum of latents, about the origin and without linear part."""
    d_model = form.d_model
    centring = Centring(torch.zeros(d_model, dtype=torch.float64), 1.0, 1 / d_model, None, False, "")
    left, right = (centring.split(factors.double()) for factors in (form.left, form.right))
    return _frame_of(left, right, form.weights.double(), centring, n_axes)


def _frame_of(left: Tensor, right: Tensor, weights: Tensor, centring: Centring, n_axes: int) -> LatentFrame:
    terms = Terms(torch.zeros(1, dtype=torch.int64), left[None], right[None], weights[None])
    part, values = decompose_batch(terms, centring, n_axes, DEFAULT_TOLERANCE)
    return _only_frame(part, values, centring.scale * linear_and_constant(terms)[0][0].cpu(), centring)


def _only_frame(part: Part, values: Tensor, linear: Tensor, centring: Centring) -> LatentFrame:
    """The frame of the only latent of a part."""
    own = {name: column[0] for name, column in part.columns.items()}
    return LatentFrame(
        eigenvalues=values[0][values[0] != 0].cpu(),
        axes=own["axes"].double(),
        axis_quadratic=own["axis_quadratic"],
        axis_linear=own["axis_linear"],
        axis_kind=own["axis_kind"],
        linear=linear,
        constant=float(own["constant"]),
        curvature=float(part.readings.curvature[0]),
        shape=part.readings.shape_of(0, DEFAULT_TOLERANCE),
        centring=centring,
    )
