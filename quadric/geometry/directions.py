"""The latents of a linear dictionary: directions, read as affine functions of the token about the centre.

A linear latent adds z·d to the reconstruction, with d its row of the decoder. Its value is read by its row e of the
encoder and gated, z = keep(ReLU(e·(x − b) + β)). What the gate lets through is affine in v = x − μ,

    z = e·v + a,    a = e·(μ − b) + β,

a latent with Q = 0: a half-space with curvature 0, exactly. It is not read as the rank-1 form ddᵀ here, which is a
slab: (d·x)² fires on both sides, and a linear latent on one. Only where whole forms are compared is it ddᵀ
(`quadric.geometry.dictionary.as_forms`).

The axes in which such a latent is shown are, in this order,

1. d, what the latent writes;
2. the part of e orthogonal to d, what it reads besides, so that z is exact on the first two axes;
3. the leading principal components of the tokens, made orthogonal to both, if their covariance is known.

Tokens are those that the encoder reads, `autoencoder.prepare(x)`: unit tokens for dictionaries that are trained here.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.axes import LINEAR_DIRECTION, NO_AXIS, PRINCIPAL_COMPONENT, READING_DIRECTION, orthonormal
from quadric.geometry.eigenspaces import leading_eigenpairs
from quadric.geometry.shapes import CONSTANT, EMPTY, HALF_SPACE, Readings
from quadric.model.linear import LinearAutoencoder

LATENTS_AT_ONCE = 256


class Directions(NamedTuple):
    """Some latents of a linear dictionary about a centre; float64."""

    writes: Float[Tensor, "b d"]
    """Rows of the decoder."""
    reads: Float[Tensor, "b d"]
    """Rows of the encoder: the gradient of z where the latent is active."""
    constant: Float[Tensor, " b"]
    """a: the value before the gate at the centre."""


class DirectionFrames(NamedTuple):
    """The axes of some latents, and their value before the gate on them."""

    axes: Float[Tensor, "b d a"]
    kinds: Int[Tensor, "b a"]
    slopes: Float[Tensor, "b a"]
    """e·axis."""


@torch.no_grad()
def directions_of(
    autoencoder: LinearAutoencoder, centre: Float[Tensor, " d"], latents: slice = slice(None)
) -> Directions:
    """What latents write and read, and their value before the gate at a centre.

    Args:
        autoencoder: A linear dictionary.
        centre: Of the tokens that its encoder reads.
        latents: Which of them.

    Returns:
        Rows of decoder and encoder, and constants.
    """
    tensors = (autoencoder.decoder, autoencoder.encoder, autoencoder.encoder_bias, autoencoder.decoder_bias)
    decoder, encoder, encoder_bias, decoder_bias = (each.detach().cpu().double() for each in tensors)
    reads, centre = encoder[latents], centre.cpu().double()
    if autoencoder.subtract_decoder_bias:
        centre = centre - decoder_bias
    return Directions(decoder[latents], reads, reads @ centre + encoder_bias[latents])


def principal_components(
    covariance: Float[Tensor, "d d"] | float, count: int
) -> Float[Tensor, "d p"] | Float[Tensor, "0 0"]:
    """The leading eigenvectors of the tokens' covariance; none where only a single variance is known."""
    if isinstance(covariance, float) or count < 1:
        return torch.zeros(0, 0, dtype=torch.float64)
    return leading_eigenpairs(covariance.double(), min(count, len(covariance)))[1]


def direction_frames(found: Directions, components: Float[Tensor, "..."], n_axes: int) -> DirectionFrames:
    """The axes of latents: what each writes, what it reads besides, then principal components of the tokens."""
    parts = [
        _frames(Directions(*(column[rows] for column in found)), components, n_axes)
        for rows in torch.split(torch.arange(len(found.constant)), LATENTS_AT_ONCE)
    ]
    return DirectionFrames(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _frames(found: Directions, components: Tensor, n_axes: int) -> DirectionFrames:
    count, d_model = found.writes.shape
    shared = [components[:, number].expand(count, d_model) for number in range(components.shape[1])]
    candidates = torch.stack([found.writes, found.reads, *shared], dim=2)
    kinds = torch.tensor([LINEAR_DIRECTION, READING_DIRECTION] + [PRINCIPAL_COMPONENT] * len(shared))
    frame = orthonormal(candidates)
    missing = (frame == 0).all(1)
    # Axes that exist come first, in their order; a tied encoder leaves no second one.
    order = missing.int().argsort(dim=-1, stable=True)
    axes = frame.gather(2, order[:, None].expand_as(frame))[..., :n_axes]
    found_kinds = torch.where(missing, NO_AXIS, kinds).gather(1, order)[:, :n_axes]
    axes = _with_sides(axes, found_kinds, found.reads)
    short = n_axes - axes.shape[2]
    axes = torch.nn.functional.pad(axes, (0, short))
    found_kinds = torch.nn.functional.pad(found_kinds, (0, short), value=NO_AXIS)
    return DirectionFrames(axes, found_kinds, (found.reads[:, None] @ axes)[:, 0])


def _with_sides(axes: Tensor, kinds: Tensor, reads: Tensor) -> Tensor:
    """Axes with fixed signs: d keeps its own, z grows along what it reads, components have a positive largest entry."""
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))[:, 0]
    slopes = (reads[:, None] @ axes)[:, 0]
    turned = torch.where(kinds == READING_DIRECTION, slopes < 0, (kinds == PRINCIPAL_COMPONENT) & (largest < 0))
    return axes * torch.where(turned, -1, 1)[:, None]


def direction_readings(found: Directions) -> Readings:
    """Half-spaces of curvature 0; a latent that reads nothing is constant, and one that writes nothing is empty."""
    reads, writes = found.reads.any(1), found.writes.any(1)
    shape = torch.where(writes, torch.where(reads, HALF_SPACE, CONSTANT), EMPTY)
    nothing = torch.zeros_like(shape)
    return Readings(
        shape=shape,
        curvature=torch.zeros_like(found.constant),
        positive=nothing,
        negative=nothing,
        opens=shape == HALF_SPACE,
        round=torch.zeros_like(reads),
    )
