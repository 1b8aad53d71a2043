"""Where the centre is: every dictionary's forms in coordinates about the mean of the unit tokens.

Whatever the lens, the factors l of the atoms split into a part that acts on v (d numbers) and one that acts on a
constant, here side by side as d + 1 numbers:

| dictionary          | on v           | on the constant | constant c | v           |
|---------------------|----------------|-----------------|------------|-------------|
| affine lens         | l[:d]          | l[d]            | the lens's | u − μ       |
| raw, centre μ known | l − (l·m)m     | l·m             | ‖μ‖        | u − (m·u)m  |
| raw, no centre      | l              | 0               | 1          | u           |

with m = μ/‖μ‖. Then, for every latent, z = vᵀQv + c·bᵀv + c²a. With an affine lens that is exact; with a raw dictionary
m·u, whose mean is ‖μ‖, plays the part of c.

A linear dictionary has no factors but directions: a latent adds z·d to the reconstruction, with d its row of the
decoder. Its value is read by its row e of the encoder and gated, z = keep(ReLU(e·(x − b) + β)). What the gate lets
through is affine in v = u − μ with c = 1, about the decoder's bias where no centre is known,

    z = e·v + a,    a = e·(μ − b) + β,

a latent with Q = 0: a half-space with curvature 0, exactly. u is what the encoder reads, `autoencoder.prepare(x)`. The
latent is not read as the rank-1 form ddᵀ here, which is a slab: (d·x)² fires on both sides, and a linear latent on one.
Only where whole forms are compared is it ddᵀ (`quadric.geometry.dictionary.as_forms`).
"""

import hashlib
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import forms_or_directions, is_costly, require_forms
from quadric.model import Dictionary
from quadric.model.forms import Directions, Forms
from quadric.model.lens import AffineLens, TokenMoments
from quadric.model.linear import encoder_input

SMALLEST_VARIANCE = 1e-6
"""Of all directions together, if the mean token has unit norm: variances must stay positive."""


class Centre(NamedTuple):
    """Where the unit tokens are, and how they spread."""

    mean: Float[Tensor, " d"]
    covariance: Float[Tensor, "d d"] | None = None
    """About the mean; by default all directions have the same variance, (1 − ‖mean‖²)/d."""


CentreLike = Centre | TokenMoments | Tensor
"""A centre, sums over tokens, or the mean of the unit tokens alone."""


class Centring(NamedTuple):
    """How forms and tokens are split about a centre."""

    centre: Float[Tensor, " d"]
    """μ; zero for the origin."""
    scale: float
    """c."""
    covariance: Float[Tensor, "d d"] | float
    """Of v: a matrix, or one variance for all directions."""
    direction: Float[Tensor, " d"] | None
    """m, for a raw dictionary with a centre."""
    is_affine: bool
    """Whether v = u − μ."""
    sha256: str
    """Identifies a centre that was given; empty if the weights decide it."""

    @property
    def at_origin(self) -> bool:
        """Whether forms have neither linear nor constant part."""
        return self.direction is None and not self.is_affine

    def split(self, factors: Float[Tensor, "h w"]) -> Float[Tensor, "h d1"]:
        """Factors in the coordinates [v; constant]."""
        if self.is_affine:
            return factors
        if self.direction is None:
            return torch.nn.functional.pad(factors, (0, 1))
        m = self.direction.to(factors)
        along = (factors @ m)[:, None]
        return torch.cat([factors - along * m, along], dim=1)

    def coordinates(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """v of unit tokens."""
        if self.is_affine:
            return unit - self.centre.to(unit)
        if self.direction is None:
            return unit
        m = self.direction.to(unit)
        return unit - (unit @ m)[:, None] * m


def centring_of(autoencoder: Dictionary | Forms, centre: CentreLike | None = None) -> Centring:
    """How to split the latents of a dictionary: about an affine lens's own centre, else about the given one.

    Without one, forms are read about the origin, and a linear dictionary about its decoder's bias.
    """
    latents, d_model = forms_or_directions(autoencoder), autoencoder.d_model
    if isinstance(latents, Directions):  # v = u − μ: it subtracts what it is centred on, like an affine lens
        origin = Centring(latents.bias.detach().cpu().double(), 1.0, 1 / d_model, None, True, "")
    elif isinstance(lens := require_forms(autoencoder).lens, AffineLens):
        mean, covariance = lens.centre.detach().cpu().double(), lens.covariance.detach().cpu().double()
        return Centring(mean, float(lens.constant), covariance, None, True, "")
    else:
        origin = Centring(torch.zeros(d_model, dtype=torch.float64), 1.0, 1 / d_model, None, False, "")
    if centre is None:
        return origin
    given = as_centre(centre)
    if len(given.mean) != d_model:
        raise ValueError(f"the centre has {len(given.mean)} coordinates; the autoencoder reads d_model={d_model}")
    mean = given.mean.detach().cpu().double()
    known = None if given.covariance is None else given.covariance.detach().cpu().double()
    if isinstance(latents, Directions):
        return Centring(mean, 1.0, origin.covariance if known is None else known, None, True, centre_sha256(given))
    length = float(torch.linalg.vector_norm(mean))
    isotropic = max(SMALLEST_VARIANCE, 1 - length**2) / d_model
    direction, scale = (mean / length, length) if length else (None, 1.0)
    spread = isotropic if known is None else known
    return Centring(mean, scale, spread, direction, False, centre_sha256(given))


def prepared(autoencoder: Dictionary, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Raw activations as `encode` takes them, checked and on the dictionary's device: unit tokens, for those that are
    trained here."""
    return autoencoder.prepare(tokens.to(next(autoencoder.parameters()).device))


def as_read(autoencoder: Dictionary, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """What the dictionary reads of prepared tokens: the vectors about whose mean a linear dictionary is shown."""
    directions = autoencoder.forms()
    return encoder_input(directions.input, tokens) if isinstance(directions, Directions) else tokens


def as_centre(centre: CentreLike) -> Centre:
    """The centre in any of its forms."""
    if isinstance(centre, Centre):
        return centre
    return Centre(centre) if isinstance(centre, Tensor) else Centre(centre.mean, centre.covariance)


def centre_sha256(centre: Centre) -> str:
    """Identifies a centre, at float32: what is stored with a geometry to tell whether it can be used again."""
    digest = hashlib.sha256()
    for tensor in centre:
        digest.update(b"none" if tensor is None else tensor.detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def given_sha256(autoencoder: Dictionary, centre: CentreLike | None) -> str:
    """`Centring.sha256` of a dictionary and a centre, without splitting anything."""
    return "" if centre is None or has_own_centre(autoencoder) else centre_sha256(as_centre(centre))


def has_own_centre(autoencoder: Dictionary) -> bool:
    """Whether the dictionary knows the centre of its tokens, by an affine lens, so that geometry needs no data."""
    return isinstance(autoencoder.lens, AffineLens)


class Factors(NamedTuple):
    """L and R of all atoms, in coordinates [v; constant]."""

    left: Float[Tensor, "h d1"]
    right: Float[Tensor, "h d1"]


@torch.no_grad()
def centred_factors(latents: Dictionary | Forms, centring: Centring) -> Factors:
    """The factors of all atoms about the centre, in float64 unless the latents are dense and large."""
    forms = require_forms(latents)
    dtype = torch.float32 if is_costly(forms) else torch.float64
    left = centring.split(forms.left.detach().double()).to(dtype)
    return Factors(left, left if forms.same_factors else centring.split(forms.right.detach().double()).to(dtype))


class CentredDirections(NamedTuple):
    """Some latents of a linear dictionary about a centre; float64."""

    writes: Float[Tensor, "b d"]
    """Rows of the decoder."""
    reads: Float[Tensor, "b d"]
    """Rows of the encoder: the gradient of z where the latent is active."""
    constant: Float[Tensor, " b"]
    """a: the value before the gate at the centre."""


@torch.no_grad()
def directions_of(
    directions: Directions, centre: Float[Tensor, " d"], latents: slice = slice(None)
) -> CentredDirections:
    """What latents write and read, and their value before the gate at a centre of the tokens that the encoder reads."""
    tensors = (directions.writes, directions.reads, directions.constants, directions.bias)
    writes, encoder, constants, bias = (each.detach().cpu().double() for each in tensors)
    reads, centre = encoder[latents], centre.cpu().double()
    if directions.subtracts_bias:
        centre = centre - bias
    return CentredDirections(writes[latents], reads, reads @ centre + constants[latents])
