"""One latent about the centre, in its own axes, without decomposing the others."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.axes import NO_AXIS
from quadric.geometry.centring import CentreLike, Centring, centred_factors, centring_of, directions_of
from quadric.geometry.decomposition import KEPT_AXES, Part, decompose_batch, directions_part, linear_and_constant
from quadric.geometry.dictionary import Terms, require_forms
from quadric.geometry.forms import Form
from quadric.geometry.shapes import DEFAULT_TOLERANCE, Shape
from quadric.model import Dictionary
from quadric.model.forms import Directions


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
    """The axes and coefficients of one latent, without decomposing the others.

    Args:
        autoencoder: Any dictionary.
        latent: Index of the latent.
        n_axes: Axes to keep.
        centre: As for `decompose`.

    Returns:
        Its eigenvalues, axes, coefficients and shape.
    """
    centring = centring_of(autoencoder, centre)
    directions = autoencoder.forms()
    if isinstance(directions, Directions):
        return _direction_frame(directions, latent, centring, n_axes)
    bilinear = require_forms(autoencoder)
    atoms, weights = bilinear.mixing.row(latent)
    left, right = (factors[atoms].double() for factors in centred_factors(bilinear, centring))
    return _frame_of(left, right, weights.detach().double().to(left.device), centring, n_axes)


@torch.no_grad()
def form_frame(form: Form, n_axes: int = KEPT_AXES) -> LatentFrame:
    """The axes and coefficients of a form about the origin of its coordinates, without linear part.

    Args:
        form: Such as a sum of latents.
        n_axes: Axes to keep.

    Returns:
        Its eigenvalues, axes, coefficients and shape.
    """
    d_model = form.d_model
    centring = Centring(torch.zeros(d_model, dtype=torch.float64), 1.0, 1 / d_model, None, False, "")
    left, right = (centring.split(factors.double()) for factors in (form.left, form.right))
    return _frame_of(left, right, form.weights.double(), centring, n_axes)


def _frame_of(left: Tensor, right: Tensor, weights: Tensor, centring: Centring, n_axes: int) -> LatentFrame:
    terms = Terms(torch.zeros(1, dtype=torch.int64), left[None], right[None], weights[None])
    part, values = decompose_batch(terms, centring, n_axes, DEFAULT_TOLERANCE)
    return _only_frame(part, values, centring.scale * linear_and_constant(terms)[0][0].cpu(), centring)


def _direction_frame(directions: Directions, latent: int, centring: Centring, n_axes: int) -> LatentFrame:
    only = slice(latent, latent + 1)
    part, values = directions_part(directions, centring, n_axes, only)
    return _only_frame(part, values, directions_of(directions, centring.centre, only).reads[0], centring)


def _only_frame(part: "Part", values: Tensor, linear: Tensor, centring: Centring) -> LatentFrame:
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
