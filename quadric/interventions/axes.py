"""A latent in the coordinates in which interventions are computed: its own axes, from weights alone.

The latent's own space is spanned by the eigenvectors of Q, by |λ| descending, and by the part of b outside their span,
with λ = 0, if there is one. Everything is in float64. With the unit token u = x/‖x‖,

| dictionary               | v             | c                              |
|--------------------------|---------------|--------------------------------|
| affine lens              | u − μ         | the lens's constant            |
| raw, about the origin    | u             | no linear or constant part     |
| raw, about a centre μ    | u − (m·u)m    | m·u of each token, m = μ/‖μ‖   |

z = vᵀQv + c·bᵀv + c²a holds exactly in all of them. About a centre, interventions leave m·u as it is.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.axes import with_fixed_signs
from quadric.geometry.centring import CentreLike, Centring, centring_of
from quadric.geometry.dictionary import require_forms
from quadric.geometry.shapes import check_tolerance, largest_shares
from quadric.geometry.spectra import eigenpairs
from quadric.model import Dictionary

OUTSIDE = 1e-10
"""Share of b that may lie outside the eigenvectors by rounding alone."""


class Placed(NamedTuple):
    """Tokens as a latent sees them."""

    coordinates: Float[Tensor, "n m"]
    """y: v on the axes."""
    gradient: Float[Tensor, "n m"]
    """Of z along the axes, 2λ_j y_j + c·b_j."""
    value: Float[Tensor, " n"]
    """z."""


class Axes(NamedTuple):
    """The axes of one latent, and its form."""

    eigenvalues: Float[Tensor, " m"]
    """λ by |λ| descending; then 0 if the linear part has an axis of its own."""
    basis: Float[Tensor, "d m"]
    """The axes as orthonormal columns; the largest entry of each is positive."""
    linear: Float[Tensor, " m"]
    """b on the axes."""
    left: Float[Tensor, "s d1"]
    """Factors of the atoms on [v; c]: z of the whole form, including axes that the tolerance left out."""
    right: Float[Tensor, "s d1"]
    weights: Float[Tensor, " s"]
    centring: Centring

    def to(self, device: torch.device) -> "Axes":
        """The same on another device."""
        return self._replace(**{name: part.to(device) for name, part in self._asdict().items() if name != "centring"})

    def place(self, unit: Float[Tensor, "n d"]) -> Placed:
        """Coordinates, gradient and value of unit tokens, in float64."""
        centring = self.centring
        v = centring.coordinates(unit)
        constant = unit.new_full((len(unit), 1), centring.scale)
        if centring.direction is not None:
            constant = (unit @ centring.direction.to(unit))[:, None]
        whole = torch.cat([v, constant], dim=1)
        value = ((whole @ self.left.mT) * (whole @ self.right.mT)) @ self.weights
        coordinates = v @ self.basis
        return Placed(coordinates, 2 * self.eigenvalues * coordinates + constant * self.linear, value)


@torch.no_grad()
def latent_axes(autoencoder: Dictionary, latent: int, centre: CentreLike | None = None, tolerance: float = 0.0) -> Axes:
    """The axes of one latent.

    Args:
        autoencoder: A bilinear autoencoder.
        latent: Index of the latent.
        centre: Mean of the unit tokens that a raw dictionary reads; an affine lens has its own, which is used.
        tolerance: Share of Σ|λ| that the axes may leave out. What they leave out is part of z, but does not move.

    Returns:
        The axes; none if the latent is empty or constant.
    """
    check_tolerance(tolerance)
    if isinstance(latent, bool) or not isinstance(latent, int) or not 0 <= latent < autoencoder.n_latents:
        raise IndexError(f"latent {latent} is outside 0 … {autoencoder.n_latents - 1}")
    forms, centring = require_forms(autoencoder), centring_of(autoencoder, centre)
    atoms, weights = forms.mixing.row(latent)
    weights = weights.detach().double().cpu()
    left, right = (
        centring.split(factors.detach()[atoms.to(factors.device)].double().cpu())
        for factors in (forms.left, forms.right)
    )
    values, vectors = eigenpairs(left[:, :-1], right[:, :-1], weights)
    curved = values != 0
    values, vectors = values[curved], vectors[:, curved]
    linear = weights * right[:, -1] @ left[:, :-1] + weights * left[:, -1] @ right[:, :-1]
    beyond = linear - vectors @ (vectors.mT @ linear)
    sizes = values.abs()[None]
    kept = largest_shares(sizes, tolerance * sizes.sum(-1))[0]
    values, vectors = values[kept], vectors[:, kept]
    length = torch.linalg.vector_norm(beyond)
    if length > OUTSIDE * torch.linalg.vector_norm(linear):
        values = torch.nn.functional.pad(values, (0, 1))
        vectors = torch.cat([vectors, (beyond / length)[:, None]], dim=1)
    # Without fixed signs, the direction in which a slide starts would depend on the linear algebra library.
    basis = with_fixed_signs(vectors[None])[0]
    return Axes(values, basis, linear @ basis, left, right, weights, centring)
