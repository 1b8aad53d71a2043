"""The quadratic term of the error for dictionaries whose Gram matrix does not fit in memory.

zᵀKz = wᵀGw with w = Cᵀz. G is computed block by block, once in the forward and once in the backward pass, and never
stored.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.kernel import cross_gram
from quadric.model.products import block_pairs


def blocked_quadratic_form(
    weights: Float[Tensor, "n h"],
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    symmetric: bool = True,
    block_size: int = 2048,
) -> Float[Tensor, " n"]:
    """wᵀGw per token, with memory linear in the block size.

    With w = Cᵀz this is zᵀKz for every prior; with C = I (atomic) the blocks are blocks of latents.
    """
    if block_size < 1:
        raise ValueError(f"block_size={block_size} is not positive; give the number of atoms to hold at once")
    return _BlockedQuadraticForm.apply(weights, left, right, symmetric, block_size)  # type: ignore[no-untyped-call, no-any-return]


class _BlockedQuadraticForm(torch.autograd.Function):
    """Stores only P = WG; each block of G is computed again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, left: Tensor, right: Tensor, symmetric: bool, block_size: int) -> Tensor:
        product = torch.zeros_like(weights)
        for a, b in block_pairs(len(left), block_size):
            gram = cross_gram(left[a], right[a], left[b], right[b], symmetric)
            product[:, a] += weights[:, b] @ gram.mT
            if a != b:
                product[:, b] += weights[:, a] @ gram
        ctx.save_for_backward(weights, left, right, product)
        ctx.symmetric, ctx.block_size = symmetric, block_size
        return (product * weights).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, left, right, product = ctx.saved_tensors
        needs_weights, needs_left, needs_right, *_ = ctx.needs_input_grad
        grad_weights = 2 * grad[:, None] * product if needs_weights else None
        if not (needs_left or needs_right):
            return grad_weights, None, None, None, None
        grad_left, grad_right = torch.zeros_like(left), torch.zeros_like(right)
        weighted = grad[:, None] * weights
        for a, b in block_pairs(len(left), ctx.block_size):
            # An off-diagonal block also stands for its mirror image, so it counts twice.
            grad_gram = weights[:, a].mT @ weighted[:, b] * (1 if a == b else 2)
            parts = [part.detach().requires_grad_() for part in (left[a], right[a], left[b], right[b])]
            with torch.enable_grad():
                gram = cross_gram(parts[0], parts[1], parts[2], parts[3], ctx.symmetric)
            grads = torch.autograd.grad(gram, parts, grad_gram)
            for total, rows, part in zip(
                (grad_left, grad_right, grad_left, grad_right), (a, a, b, b), grads, strict=True
            ):
                total[rows] += part
        return grad_weights, grad_left, grad_right, None, None
