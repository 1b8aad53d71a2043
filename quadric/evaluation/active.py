"""Error against the number of latents that are used per token: bilinear and linear dictionaries on one curve."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.model import Dictionary
from quadric.model.fast.products import slices

TOKENS = 1024
"""Tokens that the curve is measured on."""
NUMBERS_AT_ONCE = 2**26
"""Latents that are rebuilt together (256 MiB in float32), since every call computes the kernel again."""


class ActiveError(NamedTuple):
    """Mean error when only the `n_active` largest |z| of every token are kept."""

    n_active: int
    error: float


@torch.no_grad()
def error_by_active(
    autoencoder: Dictionary, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> list[ActiveError]:
    """The curve at 1, 2, 4, … latents and at all of them, for prepared tokens.

    X̂ = Σ_{i kept} z_i W_i for a bilinear dictionary, x̂x̂ᵀ of the kept directions for a linear one. Beyond the latents
    that a linear dictionary has active, its curve is flat. A dictionary that does not rebuild from given latents has
    one point, at all of them.
    """
    if not autoencoder.rebuilds_from_latents:
        return [ActiveError(autoencoder.n_latents, autoencoder.errors_of(tokens, latents).product_space.mean().item())]
    order = latents.abs().argsort(dim=-1, descending=True)
    powers = [2**power for power in range(autoencoder.n_latents.bit_length())]
    counts = list(dict.fromkeys([*(each for each in powers if each < autoencoder.n_latents), autoencoder.n_latents]))
    found: list[ActiveError] = []
    for some in (counts[each] for each in slices(len(counts), _points_at_once(autoencoder, latents))):
        kept = torch.cat([_strongest_alone(latents, order[:, :count]) for count in some])
        errors = autoencoder.errors_of(tokens.repeat(len(some), 1), kept).product_space
        found += map(ActiveError, some, errors.view(len(some), -1).mean(1).tolist())
    return found


def _points_at_once(autoencoder: Dictionary, latents: Float[Tensor, "n k"]) -> int:
    """How many points of the curve share one kernel; one where none is formed, because it would be too large."""
    if not autoencoder.settings.has_kernel:
        return 1
    return max(1, NUMBERS_AT_ONCE // max(1, latents.numel()))


def _strongest_alone(latents: Float[Tensor, "n k"], indices: Int[Tensor, "n c"]) -> Float[Tensor, "n k"]:
    return torch.zeros_like(latents).scatter(1, indices, latents.gather(1, indices))


def fewest_active(curve: list[ActiveError], tolerance: float = 0.1) -> int:
    """The smallest number of latents per token on the curve whose error is within 10 % of that with all latents.

    Args:
        curve: As `error_by_active` returns it.
        tolerance: How much larger the error may be, as a share.

    Returns:
        1, 2, 4, … or the number of latents.

    Example:
        >>> fewest_active([ActiveError(1, 0.9), ActiveError(2, 0.31), ActiveError(3, 0.3)])
        2
    """
    most = (1 + tolerance) * curve[-1].error
    return next(each.n_active for each in curve if each.error <= most or each is curve[-1])


def error_at(curve: list[ActiveError], n_active: int) -> float:
    """The error with `n_active` latents per token; with all of them where the dictionary has fewer.

    Example:
        >>> error_at([ActiveError(1, 0.9), ActiveError(2, 0.31), ActiveError(3, 0.3)], 2)
        0.31
    """
    return next((each.error for each in curve if each.n_active >= n_active), curve[-1].error)
