"""The axes in which a latent is shown: which they are, and how they are made orthonormal.

The axes of a quadratic form are eigenvectors of Q, those that count for its shape first, each part by |λ| descending.
Where the level sets open, the direction of the linear part is one of them: first for a half-space; third for a
paraboloid, or after the eigenvectors that count if there is only one. Eigenvectors that do not count are made
orthogonal to it; b_⊥ is orthogonal to the others anyway.

The axes of a direction, a latent of a linear dictionary, are, in this order,

1. d, what the latent writes;
2. the part of e orthogonal to d, what it reads besides, so that z is exact on the first two axes;
3. the leading principal components of the tokens, made orthogonal to both, if their covariance is known.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.centring import CentredDirections
from quadric.geometry.shapes import HALF_SPACE, Reading
from quadric.geometry.spectra import leading_eigenpairs

EIGENVECTOR, LINEAR_DIRECTION, READING_DIRECTION, PRINCIPAL_COMPONENT, NO_AXIS = 0, 1, 2, 3, -1
"""Kinds of axes; the third and the fourth are of linear dictionaries only."""
SMALLEST_REST = 1e-3
"""Length of what is left of a unit vector outside the axes before it, below which it is no axis of its own."""
LATENTS_AT_ONCE = 256


def orthonormal(vectors: Float[Tensor, "b d a"]) -> Float[Tensor, "b d a"]:
    """Gram–Schmidt in the order of the columns; a column inside the span of those before becomes zero."""
    frame = torch.zeros_like(vectors)
    for column in range(vectors.shape[2]):
        own = vectors[..., column]
        length = torch.linalg.vector_norm(own, dim=1, keepdim=True)
        own = own / torch.where(length > 0, length, 1)
        for _ in range(2):  # the second pass removes the rounding of the first
            own = own - (frame @ (frame.mT @ own[..., None]))[..., 0]
        rest = torch.linalg.vector_norm(own, dim=1, keepdim=True)
        frame[..., column] = torch.where(rest > SMALLEST_REST, own / rest.clamp(min=SMALLEST_REST), 0)
    return frame


def with_fixed_signs(vectors: Float[Tensor, "b d a"]) -> Float[Tensor, "b d a"]:
    """The same vectors, each with its largest entry positive: the sign of an axis is arbitrary."""
    largest = vectors.abs().argmax(dim=1, keepdim=True)
    return vectors * torch.where(vectors.gather(1, largest) < 0, -1, 1)


def eigenvector_frames(
    directions: Float[Tensor, "b d r"], values: Float[Tensor, "b r"], reading: Reading, n_axes: int
) -> tuple[Float[Tensor, "b d a"], Int[Tensor, "b a"]]:
    """The axes of every latent and their kinds."""
    present = values != 0
    # Counted ones first, then other eigenvectors with λ ≠ 0; both parts stay in the order of |λ|.
    rank = torch.where(reading.counted, 0, torch.where(present, 1, 2))
    order = rank.argsort(dim=-1, stable=True)[:, :n_axes]
    chosen = directions.gather(2, order[:, None].expand(-1, directions.shape[1], -1))
    chosen = chosen * present.gather(1, order)[:, None]
    axes = torch.nn.functional.pad(chosen, (0, n_axes - chosen.shape[2]))
    kinds = torch.where((axes != 0).any(1), EIGENVECTOR, NO_AXIS)
    opens = reading.columns.opens.nonzero()[:, 0]
    if len(opens) and n_axes:
        linear = (directions[opens] @ reading.outside[opens, :, None])[..., 0]
        counted = reading.counted[opens].sum(-1)
        place = torch.where(reading.columns.shape[opens] == HALF_SPACE, 0, counted.clamp(max=2))
        axes[opens], kinds[opens] = _with_linear_axis(axes[opens], linear, place)
    return with_fixed_signs(axes), kinds


def _with_linear_axis(
    axes: Float[Tensor, "b d a"], linear: Float[Tensor, "b d"], place: Int[Tensor, " b"]
) -> tuple[Float[Tensor, "b d a"], Int[Tensor, "b a"]]:
    """The axes with a direction inserted at some place, and all that come later made orthogonal to it."""
    n_axes = axes.shape[2]
    numbers = torch.arange(n_axes, device=axes.device)
    before = numbers < place[:, None]
    source = torch.where(before, numbers, (numbers - 1).clamp(min=0))
    shifted = axes.gather(2, source[:, None].expand_as(axes))
    is_linear = numbers == place[:, None]
    shifted = torch.where(is_linear[:, None], linear[..., None], shifted)
    frame = orthonormal(shifted)
    missing = (frame == 0).all(1)
    kinds = torch.where(missing, NO_AXIS, torch.where(is_linear, LINEAR_DIRECTION, EIGENVECTOR))
    order = missing.int().argsort(dim=-1, stable=True)
    return frame.gather(2, order[:, None].expand_as(frame)), kinds.gather(1, order)


class DirectionFrames(NamedTuple):
    """The axes of some latents, and their value before the gate on them."""

    axes: Float[Tensor, "b d a"]
    kinds: Int[Tensor, "b a"]
    slopes: Float[Tensor, "b a"]
    """e·axis."""


def principal_components(
    covariance: Float[Tensor, "d d"] | float, count: int
) -> Float[Tensor, "d p"] | Float[Tensor, "0 0"]:
    """The leading eigenvectors of the tokens' covariance; none where only a single variance is known."""
    if isinstance(covariance, float) or count < 1:
        return torch.zeros(0, 0, dtype=torch.float64)
    return leading_eigenpairs(covariance.double(), min(count, len(covariance)))[1]


def direction_frames(found: CentredDirections, components: Float[Tensor, "..."], n_axes: int) -> DirectionFrames:
    """The axes of latents: what each writes, what it reads besides, then principal components of the tokens."""
    parts = [
        _frames(CentredDirections(*(column[rows] for column in found)), components, n_axes)
        for rows in torch.split(torch.arange(len(found.constant)), LATENTS_AT_ONCE)
    ]
    return DirectionFrames(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _frames(found: CentredDirections, components: Tensor, n_axes: int) -> DirectionFrames:
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
