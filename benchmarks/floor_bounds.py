"""Two errors of PCA of xxᵀ between which the floor of a dictionary lies, for several numbers of latents."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.evaluation.measures import ProductSpaceBasis, product_space_basis

TOKENS_AT_ONCE = 4096


class FloorBounds(NamedTuple):
    """Two errors of PCA with `n_latents` components, between which the floor lies."""

    n_latents: int
    fitted: float
    """On the tokens that the components were computed from: in expectation at most the floor."""
    held_out: float
    """On other tokens: at least the floor, and close to it only with many sample tokens per component."""


def floor_bounds(
    sample: Float[Tensor, "n d"], held_out: Float[Tensor, "m d"], sizes: Sequence[int]
) -> list[FloorBounds]:
    """Bounds of the floor for several numbers of latents, from one set of components.

    The components of a smaller number are the leading ones of the largest, so this costs one decomposition.

    Args:
        sample: Unit tokens to compute the components from; more than the largest size.
        held_out: Other unit tokens.
        sizes: Numbers of latents.

    Returns:
        One pair of bounds for each size.

    Example:
        >>> x = torch.nn.functional.normalize(torch.randn(300, 8), dim=-1)
        >>> [each.n_latents for each in floor_bounds(x[:200], x[200:], [4, 16])]
        [4, 16]
    """
    if len(sample) <= max(sizes):
        raise ValueError(f"{len(sample)} sample tokens fit {max(sizes)} components exactly; give more tokens")
    basis = product_space_basis(sample, max(sizes))
    fitted, found = (_errors_by_size(basis, tokens) for tokens in (sample, held_out))
    last = len(fitted) - 1  # fewer components than asked for: the sample has no more
    return [FloorBounds(size, fitted[min(size, last)].item(), found[min(size, last)].item()) for size in sizes]


def _errors_by_size(basis: ProductSpaceBasis, tokens: Float[Tensor, "n d"]) -> Float[Tensor, " sizes"]:
    """Mean error of 0, 1, 2, … leading components."""
    energy = torch.zeros(basis.combinations.shape[1], dtype=torch.float64)
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        found = (tokens[start : start + TOKENS_AT_ONCE] @ basis.sample.mT).square() @ basis.combinations
        energy += found.double().square().sum(0)
    captured = torch.cat([energy.new_zeros(1), energy.flip(0).cumsum(0)])  # components are in ascending order
    return 1 - captured / len(tokens)
