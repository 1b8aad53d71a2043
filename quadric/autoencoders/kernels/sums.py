"""Error and density norms of a batch of latents in one pass, forward and backward.

    e = zᵀKz − 2‖z‖² + 1 of every token,    ‖z − b‖₁ and ‖z − b‖₂² of every latent

Written with separate operations, each of these makes several matrices as large as Z, and their gradients several
more, only to be added up. Here a few latents at a time go through all of it while they are in the cache.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.symmetric import slices, weighted_gram

NUMBERS_AT_ONCE = 2**18
"""Entries of Z handled together: a mebibyte in float32, which stays in the cache through all the steps."""


class LatentSums(NamedTuple):
    """What a batch of latents says before anything is averaged."""

    error: Float[Tensor, " n"]
    l1: Float[Tensor, " k"]
    l2_squared: Float[Tensor, " k"]


def latent_sums(latents: Float[Tensor, "n k"], kernel: Float[Tensor, "k k"], offset: Float[Tensor, " k"]) -> LatentSums:
    """Product-space error of unit tokens, for symmetric K, and the norms that make the Hoyer density."""
    return LatentSums(*_LatentSums.apply(latents, kernel, offset))  # type: ignore[no-untyped-call]


class _LatentSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, latents: Tensor, kernel: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        by_latent = latents.mT
        product = kernel @ by_latent
        error = torch.ones(len(latents), dtype=latents.dtype, device=latents.device)
        l1, l2_squared = torch.empty_like(offset), torch.empty_like(offset)
        for rows in _few_rows(by_latent):
            values = by_latent[rows]
            centred = values - offset[rows, None]
            torch.sum(centred.abs(), 1, out=l1[rows])
            torch.sum(centred.square_(), 1, out=l2_squared[rows])
            # z(Kz − 2z) cancels entry by entry what zᵀKz − 2‖z‖² would cancel as two sums.
            error += torch.sub(product[rows], values, alpha=2).mul_(values).sum(0)
        ctx.save_for_backward(latents, product, offset)
        return error, l1, l2_squared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_l1: Tensor, grad_l2: Tensor) -> tuple[Tensor | None, ...]:
        latents, product, offset = ctx.saved_tensors
        by_latent = latents.mT
        grad_latents, grad_offset = torch.empty_like(product), torch.empty_like(offset)
        for rows in _few_rows(by_latent):
            values = by_latent[rows]
            centred = values - offset[rows, None]
            signs = centred.sgn()
            density = centred.mul_(2 * grad_l2[rows, None]).addcmul_(signs, grad_l1[rows, None])
            torch.sum(density, 1, out=grad_offset[rows])
            torch.sub(product[rows], values, alpha=2, out=grad_latents[rows])
            grad_latents[rows].mul_(2 * grad).add_(density)
        grad_kernel = weighted_gram(by_latent, grad) if ctx.needs_input_grad[1] else None
        return grad_latents.mT, grad_kernel, grad_offset.neg_()


def _few_rows(matrix: Tensor) -> list[slice]:
    return slices(len(matrix), max(1, NUMBERS_AT_ONCE // matrix.shape[1]))
