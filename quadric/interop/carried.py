"""What a reconstruction needs of its token beside the latents.

A dictionary trained here reads unit tokens, so no latent knows how long its token was; without a lens, latents do not
even know its sign, since xxᵀ = (−x)(−x)ᵀ. Tools that encode and decode in two calls expect a vector of the token's own
length. What is missing is therefore carried from `encode` to `decode`, as SAELens does for `constant_norm_rescale`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model import BilinearAutoencoder, Dictionary
from quadric.model.devices import copy_on, exact, exact_device
from quadric.model.forms import Directions


class Carried(NamedTuple):
    """The tokens that were encoded, as far as decoding needs them."""

    shape: torch.Size
    """Of the tokens, without their last axis."""
    lengths: Float[Tensor, "n 1"]
    """By which a reconstruction of prepared tokens is multiplied."""
    prepared: Float[Tensor, "n d"] | None
    """The tokens as the encoder read them; None with an affine lens, whose latents determine the reconstruction."""


class LinearDecoder(NamedTuple):
    """The reconstruction of a prepared token is z @ rows + bias."""

    rows: Float[Tensor, "k d"]
    bias: Float[Tensor, " d"]


def is_linear(autoencoder: Dictionary) -> bool:
    """Whether decoding is linear in the latents: that of directions, and of forms with an affine lens."""
    return autoencoder.is_linear or (autoencoder.rebuilds_products and autoencoder.lens.kind == "affine")


def encode(autoencoder: Dictionary, tokens: Float[Tensor, "*shape d"]) -> tuple[Float[Tensor, "*shape k"], Carried]:
    """Latents of tokens, at unit norm where the dictionary reads them so, and what `decode` needs of the tokens."""
    shape = tokens.shape[:-1]
    flat = tokens.reshape(-1, tokens.shape[-1])
    prepared = autoencoder.prepare(flat)
    lengths: Tensor = torch.linalg.vector_norm(flat, dim=-1, keepdim=True, dtype=prepared.dtype)
    latents = autoencoder.encode(prepared).reshape(*shape, autoencoder.n_latents)
    needs_tokens = autoencoder.is_linear or not is_linear(autoencoder)
    return latents, Carried(shape, lengths / autoencoder.lengths_of(prepared), prepared if needs_tokens else None)


def decode(autoencoder: Dictionary, latents: Float[Tensor, "*shape k"], carried: Carried) -> Float[Tensor, "*shape d"]:
    """The reconstruction of each token at the token's own length.

    With an affine lens and for linear dictionaries, gradients flow to the latents. Without a lens it is √λ₁v₁ of
    X̂ = Σ z_i W_i, with the sign for which x̂·x ≥ 0, found by iteration and without a gradient.
    """
    flat = latents.reshape(-1, autoencoder.n_latents)
    if carried.prepared is None:
        assert isinstance(autoencoder, BilinearAutoencoder)
        vectors = autoencoder.decode(flat)
    else:
        with torch.set_grad_enabled(autoencoder.is_linear and torch.is_grad_enabled()):
            vectors = autoencoder.vectors_of(carried.prepared, flat)
    return (vectors * carried.lengths).reshape(*carried.shape, autoencoder.d_model)


def check_carried(carried: Carried | None, latents: Tensor, remedy: str) -> Carried:
    """What was carried, if it belongs to latents of this shape; a length is never guessed."""
    if carried is None:
        raise ValueError(f"decode was called without encode before it, so the tokens' lengths are unknown; {remedy}")
    if latents.shape[:-1] != carried.shape:
        raise ValueError(
            f"decode got latents of {tuple(latents.shape[:-1])} tokens, but {tuple(carried.shape)} were encoded last; "
            f"{remedy}"
        )
    return carried


@torch.no_grad()
def linear_decoder(autoencoder: Dictionary) -> LinearDecoder:
    """The decoder of a linear dictionary, or of forms with an affine lens: û = μ + Σ_i z_i b_i/(2c); in float64.

    One row per latent: what one unit of it adds to the reconstruction.
    """
    forms = autoencoder.forms()
    if isinstance(forms, Directions):
        return LinearDecoder(exact(forms.writes), exact(forms.bias))
    assert isinstance(autoencoder, BilinearAutoencoder)
    place = exact_device(autoencoder.left.device)
    decode: Callable[[Tensor], Tensor] = copy_on(autoencoder, place).decode
    ones = torch.eye(autoencoder.n_latents, dtype=torch.float64, device=place)
    bias = decode(torch.zeros_like(ones[:1]))
    return LinearDecoder(torch.cat([decode(some) - bias for some in torch.split(ones, 1024)]), bias[0])
