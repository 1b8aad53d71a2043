"""Overlap of the directions of a linear dictionary with the latents of another one, from weights alone.

A latent of a bilinear dictionary counts as the counterpart of a direction d as far as it is a function of d·v,
whatever function: its form overlaps with the energy along d, the rank-1 form ddᵀ, and in the coordinates [v; c] of an
affine lens also with the slope along d, the form of c·d·v. The two are orthogonal, so

    overlap² = cos²(W, ddᵀ) + cos²(W, slope along d) = ((dᵀQd)² + (b·d)²/2) / ‖W‖²    for unit d.

Two directions overlap by their cosine, and not at all if they point away from each other.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import require_bilinear
from quadric.geometry.kernels import cross_kernel
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.lens import AffineLens
from quadric.model.linear import LinearAutoencoder


@torch.no_grad()
def direction_overlaps(
    directions: Float[Tensor, "k d"], other: Autoencoder | Float[Tensor, "g d"]
) -> Float[Tensor, "k g"]:
    """How much each direction has in common with each latent of another dictionary.

    Args:
        directions: Rows of a decoder, of any length.
        other: Any dictionary that reads the same vectors, or directions.

    Returns:
        Numbers from 0 to 1; 0 where either is empty.

    Example:
        >>> topk = quadric.TopKAutoencoder(d_model=8, n_latents=16, n_active=4)
        >>> bilinear = quadric.BilinearAutoencoder(d_model=8, n_latents=6, prior="atomic")
        >>> direction_overlaps(topk.decoder, bilinear).shape
        torch.Size([16, 6])
    """
    unit = _unit(directions)
    if isinstance(other, LinearAutoencoder):
        other = other.decoder
    if isinstance(other, Tensor):
        return (unit @ _unit(other).to(unit).mT).clamp(0, 1)
    return _with_forms(unit, require_bilinear(other))


def _unit(directions: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
    return torch.nn.functional.normalize(directions.detach().double(), dim=1)


def _with_forms(unit: Float[Tensor, "k d"], bilinear: BilinearAutoencoder) -> Float[Tensor, "k g"]:
    left, right = (factors.detach().double() for factors in (bilinear.left, bilinear.right))
    unit, d_model, mix = unit.to(left.device), bilinear.d_model, bilinear.mixing.mix
    on_left, on_right = unit @ left[:, :d_model].mT, unit @ right[:, :d_model].mT
    squares = mix(on_left * on_right).square()
    if isinstance(bilinear.lens, AffineLens):
        squares = squares + mix(on_left * right[:, -1] + on_right * left[:, -1]).square() / 2
    norms = cross_kernel(bilinear, bilinear).diagonal().double().clamp(min=0)
    return torch.where(norms > 0, squares / torch.where(norms > 0, norms, 1), 0).sqrt().clamp(max=1)
