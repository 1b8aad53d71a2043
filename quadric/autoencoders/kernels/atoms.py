"""What every atom answers to every token: y = (Lx)∘(Rx)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.precision import write_gradient_product
from quadric.autoencoders.kernels.symmetric import slices

ROWS_AT_ONCE = 256
"""Atoms whose products are multiplied while they are in the cache."""


def atom_values(
    tokens: Float[Tensor, "n d"], left: Float[Tensor, "h d"], right: Float[Tensor, "h d"]
) -> Float[Tensor, "n h"]:
    """(l_j·x)(r_j·x) of every token and atom, laid out atom by atom: what mixes atoms reads whole atoms."""
    return _AtomValues.apply(tokens, left, right).mT  # type: ignore[no-untyped-call, no-any-return]


class _AtomValues(torch.autograd.Function):
    """Atoms in blocks, so that no product of gradients is ever held for all atoms at once."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, left: Tensor, right: Tensor) -> Tensor:
        lefts, rights, values = (
            torch.empty(len(left), len(tokens), dtype=tokens.dtype, device=tokens.device) for _ in range(3)
        )
        for rows in slices(len(left), ROWS_AT_ONCE):
            torch.mm(left[rows], tokens.mT, out=lefts[rows])
            torch.mm(right[rows], tokens.mT, out=rights[rows])
            torch.mul(lefts[rows], rights[rows], out=values[rows])
        ctx.save_for_backward(tokens, left, right, lefts, rights)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        tokens, left, right, lefts, rights = ctx.saved_tensors
        grad_left, grad_right = torch.empty_like(left), torch.empty_like(right)
        grad_tokens = torch.zeros_like(tokens) if ctx.needs_input_grad[0] else None
        for rows in slices(len(left), ROWS_AT_ONCE):
            for factor, other, grad_factor in ((left, rights, grad_left), (right, lefts, grad_right)):
                share = grad[rows] * other[rows]
                write_gradient_product(grad_factor[rows], share, tokens)
                if grad_tokens is not None:
                    grad_tokens += share.mT @ factor[rows]
        return grad_tokens, grad_left, grad_right
