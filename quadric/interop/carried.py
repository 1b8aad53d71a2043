"""What a reconstruction needs of its token beside the latents.

A dictionary reads unit tokens, so no latent knows how long its token was; without a lens, latents do not even know its
sign, since xxᵀ = (−x)(−x)ᵀ. Tools that encode and decode in two calls expect a vector of the token's own length. What is
missing is therefore carried from `encode` to `decode`, as SAELens does for `constant_norm_rescale`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.autoencoders.lens import PaperLens
from quadric.autoencoders.objective import check_tokens, unit_tokens


class Carried(NamedTuple):
    """The tokens that were encoded, as far as decoding needs them."""

    shape: torch.Size
    """Of the tokens, without their last axis."""
    norms: Float[Tensor, "n 1"]
    unit: Float[Tensor, "n d"] | None
    """The unit tokens, of which decoding takes the sign; None with an affine lens, which does not need it."""


class Encoded(NamedTuple):
    """Latents, and what their decoding needs."""

    latents: Float[Tensor, "... k"]
    carried: Carried


def encode(autoencoder: BilinearAutoencoder, tokens: Float[Tensor, "... d"]) -> Encoded:
    """Latents of tokens at unit norm, in any number of leading axes, and what `decode` needs of the tokens."""
    shape = tokens.shape[:-1]
    flat = tokens.reshape(-1, tokens.shape[-1])
    check_tokens(flat, autoencoder.d_model)
    unit = unit_tokens(flat)
    norms: Tensor = torch.linalg.vector_norm(flat, dim=-1, keepdim=True, dtype=unit.dtype)
    needs_sign = isinstance(autoencoder.lens, PaperLens)
    latents = autoencoder.encode(unit).reshape(*shape, autoencoder.n_latents)
    return Encoded(latents, Carried(shape, norms, unit if needs_sign else None))


def check_carried(carried: Carried | None, latents: Tensor, remedy: str) -> Carried:
    """What was carried, if it belongs to latents of this shape; a length is never guessed."""
    if carried is None:
        raise ValueError(f"decode was called without encode before it, so the tokens' lengths are unknown; {remedy}")
    if latents.shape[:-1] != carried.shape:
        raise ValueError(
            f"decode got latents of {tuple(latents.shape[:-1])} tokens, but {tuple(carried.shape)} were encoded last; "
            f"decode what was encoded, with all its tokens; {remedy}"
        )
    return carried


@torch.no_grad()
def signed_vectors(
    autoencoder: BilinearAutoencoder, latents: Float[Tensor, "n k"], unit: Float[Tensor, "n d"]
) -> Float[Tensor, "n d"]:
    """√λ₁v₁ of X̂ = Σ z_i W_i with the sign for which x̂·u ≥ 0; no gradient, since iteration finds the eigenvector."""
    return autoencoder.rank_one_vectors_of(unit, latents)


def linear_decoder(autoencoder: BilinearAutoencoder) -> Float[Tensor, "k d"]:
    """Row i is b_i/(2c), what one unit of latent i adds to û = μ + Σ_i z_i b_i/(2c); affine lens only.

    Args:
        autoencoder: A bilinear autoencoder with an affine lens.

    Returns:
        The rows, in float64.
    """
    parts = []
    with torch.no_grad():
        for latents in torch.eye(autoencoder.n_latents, dtype=torch.float64).split(1024):
            latents = latents.to(autoencoder.left.device)
            parts.append(autoencoder.decode(latents) - autoencoder.decode(torch.zeros_like(latents[:1])))
    return torch.cat(parts)
