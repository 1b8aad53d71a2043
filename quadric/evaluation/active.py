"""Error against the number of latents that are used per token: bilinear and linear dictionaries on one curve."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import Autoencoder

TOKENS = 1024
"""Tokens that the curve is measured on."""


class ActiveError(NamedTuple):
    """Mean error when only the `n_active` largest |z| of every token are kept."""

    n_active: int
    error: float


@torch.no_grad()
def error_by_active(
    autoencoder: Autoencoder, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> list[ActiveError]:
    """The curve at 1, 2, 4, … latents and at all of them, for prepared tokens.

    X̂ = Σ_{i kept} z_i W_i for a bilinear dictionary, x̂x̂ᵀ of the kept directions for a linear one. Beyond the latents
    that a linear dictionary has active, its curve is flat.
    """
    order = latents.abs().argsort(dim=-1, descending=True)
    counts = [2**power for power in range(autoencoder.n_latents.bit_length())]
    found = []
    for count in dict.fromkeys([*(each for each in counts if each < autoencoder.n_latents), autoencoder.n_latents]):
        kept = torch.zeros_like(latents).scatter(1, order[:, :count], latents.gather(1, order[:, :count]))
        found.append(ActiveError(count, autoencoder.errors_of(tokens, kept).product_space.mean().item()))
    return found
