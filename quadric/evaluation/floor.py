"""The floor: how well any k quadratic latents could rebuild these tokens, by principal components of xxᵀ.

A tied dictionary rebuilds X = xxᵀ by a linear map of rank k, and no such map leaves less than uncentred PCA of X. The
d²×d² second moment is never formed: its non-zero eigenvalues are those of the Gram matrix (x_a·x_b)² of a sample.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

TOKENS_PER_LATENT = 4
"""Fewer basis tokens than this per latent would fit the sample and not the tokens."""
FEWEST_TOKENS, MOST_TOKENS = 8_192, 32_768
"""Tokens that the floor is measured on, half of them for the basis: eight per latent within these bounds."""
ITERATIONS = 8
EXTRA = 16
"""Directions carried beside the wanted ones, so that the last of those converge too."""


class ProductSpaceBasis(NamedTuple):
    """The leading principal components of xxᵀ, as combinations of sample tokens."""

    sample: Float[Tensor, "n d"]
    combinations: Float[Tensor, "n k"]
    """Column i makes Σ_a V_ai x_a x_aᵀ the i-th component, with norm one."""

    def error(self, tokens: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
        """‖X̂ − X‖² of unit tokens, rebuilt from their components."""
        found = (tokens @ self.sample.mT).square() @ self.combinations
        return 1 - found.square().sum(-1)


def product_space_basis(sample: Float[Tensor, "n d"], n_components: int) -> ProductSpaceBasis:
    """The leading components of the unit tokens in the sample, by subspace iteration on their Gram matrix."""
    size = min(n_components, len(sample))
    gram = (sample @ sample.mT).square()
    width = min(size + EXTRA, len(sample))
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(len(sample), width, generator=generator).to(gram)).Q
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(gram @ basis).Q
    values, rotation = torch.linalg.eigh(basis.mT @ gram @ basis)
    leading = values[-size:].clamp_min(torch.finfo(values.dtype).tiny)
    kept = leading > 1e-6 * leading[-1]  # beyond the rank of the sample there is nothing but rounding
    return ProductSpaceBasis(sample, (basis @ rotation[:, -size:])[:, kept] / leading[kept].sqrt())


def floor_tokens(n_latents: int) -> int:
    """How many tokens the floor of a dictionary is measured on."""
    return min(max(2 * TOKENS_PER_LATENT * n_latents, FEWEST_TOKENS), MOST_TOKENS)


def product_space_floor(tokens: Float[Tensor, "n d"], n_latents: int) -> float | None:
    """The error of PCA with as many components as latents: basis from every second unit token, error on the others.

    None where there are too few tokens to say: at least four basis tokens per latent are needed.
    """
    tokens = tokens[: floor_tokens(n_latents)]
    sample, rest = tokens[::2], tokens[1::2]
    if len(sample) < TOKENS_PER_LATENT * n_latents or not len(rest):
        return None
    return product_space_basis(sample, n_latents).error(rest).mean().item()
