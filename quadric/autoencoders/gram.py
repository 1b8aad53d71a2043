"""Inner products of atoms, and the gradient of their matrix, by halves.

With A = LLᵀ, B = RRᵀ and M = LRᵀ the Gram matrix of the symmetric atoms is G = ½(A∘B + M∘Mᵀ). For a symmetric
gradient S its derivatives are

    ∂/∂L = (S∘B)L + (S∘Mᵀ)R,    ∂/∂R = (S∘A)R + (S∘M)L,

four products where plain autograd takes six, and rows of blocks keep every temporary but G small.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.halves import mirror, row_blocks, symmetric_part
from quadric.autoencoders.precision import add_gradient_product


def atom_gram(left: Float[Tensor, "h d"], right: Float[Tensor, "h d"], symmetric: bool = True) -> Float[Tensor, "h h"]:
    """Inner products of the atoms ½(l rᵀ + r lᵀ), or of the printed l rᵀ when not symmetric.

    G = ½(LLᵀ∘RRᵀ + LRᵀ∘RLᵀ)
    """
    return _AtomGram.apply(left, right, symmetric)  # type: ignore[no-untyped-call, no-any-return]


def cross_gram(
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    other_left: Float[Tensor, "g d"],
    other_right: Float[Tensor, "g d"],
    symmetric: bool = True,
) -> Float[Tensor, "h g"]:
    """Inner products between the atoms of two dictionaries, or of two blocks of one."""
    straight = (left @ other_left.mT) * (right @ other_right.mT)
    if not symmetric:
        return straight
    crossed = (left @ other_right.mT) * (right @ other_left.mT)
    return (straight + crossed) / 2


class _AtomGram(torch.autograd.Function):
    """Keeps the upper halves of A, B, M and Mᵀ for the backward pass: together no more than two matrices like G."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, symmetric: bool) -> Tensor:
        gram = torch.empty(len(left), len(left), dtype=left.dtype, device=left.device)
        pairs = [(0, 0), (1, 1), (0, 1), (1, 0)] if symmetric else [(0, 0), (1, 1)]
        factors, kept = (left, right), []
        for rows in row_blocks(len(left)):
            overlaps = [factors[one][rows] @ factors[two][rows.start :].mT for one, two in pairs]
            block = gram[rows, rows.start :]
            torch.mul(overlaps[0], overlaps[1], out=block)
            if symmetric:
                block.addcmul_(overlaps[2], overlaps[3]).mul_(0.5)
            mirror(gram, rows)
            kept += overlaps if any(ctx.needs_input_grad) else []
        ctx.save_for_backward(left, right, *kept)
        ctx.n_pairs = len(pairs)
        return gram

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right, *kept = ctx.saved_tensors
        grad_left, grad_right = torch.zeros_like(left), torch.zeros_like(right)
        for index, rows in enumerate(row_blocks(len(left))):
            share = symmetric_part(grad, rows)
            left_left, right_right, *crossed = kept[index * ctx.n_pairs : (index + 1) * ctx.n_pairs]
            scale = 1.0 if crossed else 2.0
            _spread(grad_left, grad_left, share * right_right, left, left, rows, scale)
            _spread(grad_right, grad_right, share * left_left, right, right, rows, scale)
            if crossed:
                left_right, right_left = crossed
                # Rows of S∘Mᵀ meet R in ∂L; their mirror image is part of S∘M, which meets L in ∂R.
                _spread(grad_left, grad_right, share * right_left, right, left, rows, scale)
                _spread(grad_right, grad_left, share * left_right, left, right, rows, scale)
        return grad_left, grad_right, None


def _spread(
    own: Tensor, mirrored: Tensor, upper: Tensor, beside: Tensor, above: Tensor, rows: slice, scale: float
) -> None:
    """Add rows of a matrix times `beside` to `own`, and their mirror image times `above` to `mirrored`."""
    add_gradient_product(own[rows], upper, beside[rows.start :], scale)
    beyond = upper[:, rows.stop - rows.start :].mT
    if len(beyond):
        add_gradient_product(mirrored[rows.stop :], beyond, above[rows], scale)
