"""The axes in which a latent is shown: what they can be, and how they are made orthonormal."""

import torch
from jaxtyping import Float
from torch import Tensor

EIGENVECTOR, LINEAR_DIRECTION, READING_DIRECTION, PRINCIPAL_COMPONENT, NO_AXIS = 0, 1, 2, 3, -1
"""Kinds of axes; the third and the fourth are of linear dictionaries only, see `quadric.geometry.directions`."""
SMALLEST_REST = 1e-3
"""Length of what is left of a unit vector outside the axes before it, below which it is no axis of its own."""


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
