"""The kernel K = CGCᵀ of the latents, and the Gram matrix G of the atoms that it is made from.

With A = LLᵀ, B = RRᵀ and M = LRᵀ the Gram matrix of the symmetric atoms is G = ½(A∘B + M∘Mᵀ). For a symmetric
gradient S its derivatives are

    ∂/∂L = (S∘B)L + (S∘Mᵀ)R,    ∂/∂R = (S∘A)R + (S∘M)L,

four products where plain autograd takes six. Working on blocks of rows keeps every temporary except G small. The upper
halves of A and B are computed again in the backward pass instead of being stored, which adds about one product; small
ones are stored.

Tied factors, L = R, have G = A∘A and ∂/∂L = 4(S∘A)L: two products in all instead of seven.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.products import (
    MOST_KEPT,
    CsrPattern,
    add_gradient_product,
    csr_matrix,
    csr_product,
    gradient_product,
    mirror,
    row_blocks,
    sampled_product,
    symmetric_gradient_product,
    symmetric_part,
    symmetric_product,
    transposed_csr_product,
)


def atom_gram(left: Float[Tensor, "h d"], right: Float[Tensor, "h d"], symmetric: bool = True) -> Float[Tensor, "h h"]:
    """Inner products of the atoms ½(l rᵀ + r lᵀ), or of the printed l rᵀ when not symmetric.

    G = ½(LLᵀ∘RRᵀ + LRᵀ∘RLᵀ)

    Factors that are one and the same tensor are tied, which takes fewer products.
    """
    return _AtomGram.apply(left, right, symmetric, None)  # type: ignore[no-untyped-call, no-any-return]


def atom_gram_rows(
    left: Float[Tensor, "h d"], right: Float[Tensor, "h d"], symmetric: bool, blocks: list[slice]
) -> Float[Tensor, "1 numbers"]:
    """Some rows of `atom_gram` in one piece, each block from its diagonal block on, which is halved."""
    return _AtomGram.apply(left, right, symmetric, blocks)  # type: ignore[no-untyped-call, no-any-return]


def cross_gram(
    left: Float[Tensor, "*b h d"],
    right: Float[Tensor, "*b h d"],
    other_left: Float[Tensor, "*b g d"],
    other_right: Float[Tensor, "*b g d"],
    symmetric: bool = True,
) -> Float[Tensor, "*b h g"]:
    """Inner products between the atoms of two dictionaries, or of two blocks of one; or of several such pairs."""
    straight = (left @ other_left.mT) * (right @ other_right.mT)
    if not symmetric:
        return straight
    crossed = (left @ other_right.mT) * (right @ other_left.mT)
    return (straight + crossed) / 2


class _AtomGram(torch.autograd.Function):
    """Stores M for the backward pass, which takes as much memory as G, and recomputes the upper halves of A and B
    unless they are small. Given blocks of rows, it computes those alone; otherwise all of G."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, symmetric: bool, blocks: list[slice] | None) -> Tensor:
        size, is_tied, is_whole = len(left), right is left, blocks is None
        blocks = row_blocks(size) if blocks is None else blocks
        gram = left.new_empty(size, size) if is_whole else upper_rows(1, blocks, left)
        upper = [gram[rows, rows.start :] for rows in blocks] if is_whole else _blocks_of(gram, blocks, size)
        kept = upper_rows(0 if is_tied else n_kept_overlaps(size, symmetric), blocks, left)
        for (rows, overlaps), block in zip(by_rows(kept, blocks, size), upper, strict=True):
            write_gram_rows(block, left, right, rows, overlaps)
            if is_whole:
                mirror(gram, rows)
            else:
                _diagonal_block(block).mul_(0.5)
        ctx.blocks, ctx.is_tied, ctx.is_whole = blocks, is_tied, is_whole
        ctx.save_for_backward(left, right, kept)
        return gram

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        left, right, kept = ctx.saved_tensors
        right, blocks = left if ctx.is_tied else right, ctx.blocks
        grad_left, grad_right = torch.zeros_like(left), None if ctx.is_tied else torch.zeros_like(right)
        upper = repeat(None) if ctx.is_whole else _blocks_of(grad, blocks, len(left))
        for (rows, overlaps), half in zip(by_rows(kept, blocks, len(left)), upper, strict=False):
            share = symmetric_part(grad, rows) if half is None else _gradient_of_gram(half)
            add_gram_gradients(grad_left, grad_right, share, left, right, rows, overlaps)
        return grad_left, grad_right, None, None


def _blocks_of(numbers: Float[Tensor, "1 numbers"], blocks: list[slice], size: int) -> list[Tensor]:
    return [block for _, (block,) in by_rows(numbers, blocks, size)]


def _diagonal_block(half: Float[Tensor, "r c"]) -> Float[Tensor, "r r"]:
    return half[:, : len(half)]


def _gradient_of_gram(grad_half: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """Rows of the symmetric gradient of G, given that of rows with half of a diagonal block; off the diagonal they
    stand for two blocks of G."""
    share = grad_half * 0.5
    diagonal = _diagonal_block(share)
    diagonal.copy_(torch.add(diagonal, diagonal.mT).mul_(0.5))
    return share


def n_kept_overlaps(n_atoms: int, symmetric: bool) -> int:
    """How many of LRᵀ, RLᵀ, LLᵀ and RRᵀ are kept for the backward pass: the first two or all; none if not symmetric."""
    return 0 if not symmetric else 4 if n_atoms**2 < MOST_KEPT else 2


def write_gram_rows(block: Tensor, left: Tensor, right: Tensor, rows: slice, kept: list[Tensor]) -> None:
    """Write rows of G from their diagonal block on.

    Args:
        block: receives them.
        left: L.
        right: R.
        rows: which rows.
        kept: memory for the same rows of as many of LRᵀ, RLᵀ, LLᵀ and RRᵀ as `n_kept_overlaps` says.
    """
    if right is left:
        _overlaps(left, left, rows, block).square_()
        return
    left_left, right_right = kept[2:] or (None, None)
    torch.mul(_overlaps(left, left, rows, left_left), _overlaps(right, right, rows, right_right), out=block)
    if kept:
        _overlaps(left, right, rows, kept[0])
        _overlaps(right, left, rows, kept[1])
        block.addcmul_(kept[0], kept[1]).mul_(0.5)


def add_gram_gradients(
    grad_left: Tensor,
    grad_right: Tensor | None,
    share: Tensor,
    left: Tensor,
    right: Tensor,
    rows: slice,
    kept: list[Tensor],
) -> None:
    """Add what rows of the symmetric gradient S of G, from their diagonal block on, give to ∂/∂L and ∂/∂R.

    Args:
        grad_left: ∂/∂L, added to.
        grad_right: ∂/∂R, added to; None if L = R.
        share: the rows of S; their mirror image is taken into account.
        left: L.
        right: R.
        rows: which rows.
        kept: what `write_gram_rows` wrote.
    """
    if grad_right is None:
        _spread(grad_left, grad_left, _overlaps(left, left, rows).mul_(share), left, left, rows, 4.0)
        return
    scale = 1.0 if kept else 2.0
    left_left, right_right = kept[2:] or (None, None)
    _spread(grad_left, grad_left, _weighted(share, right_right, right, rows), left, left, rows, scale)
    _spread(grad_right, grad_right, _weighted(share, left_left, left, rows), right, right, rows, scale)
    if kept:
        left_right, right_left = kept[:2]
        # Rows of S∘Mᵀ multiply R in ∂L; their mirror image is part of S∘M, which multiplies L in ∂R.
        _spread(grad_left, grad_right, share * right_left, right, left, rows, scale)
        _spread(grad_right, grad_left, share * left_right, left, right, rows, scale)


def _weighted(share: Tensor, overlaps: Tensor | None, factor: Tensor, rows: slice) -> Tensor:
    """Rows of S∘FFᵀ, from the overlaps that were kept or computed again."""
    return _overlaps(factor, factor, rows).mul_(share) if overlaps is None else share * overlaps


def _overlaps(one: Tensor, other: Tensor, rows: slice, out: Tensor | None = None) -> Tensor:
    """Inner products of a block of rows with the rows from its start on."""
    return torch.mm(one[rows], other[rows.start :].mT, out=out)


def upper_rows(count: int, blocks: list[slice], factor: Float[Tensor, "h d"]) -> Float[Tensor, "count numbers"]:
    """Memory for blocks of rows of `count` h×h matrices, each block from the diagonal on.

    In one piece: many pieces would fragment the heap.
    """
    return torch.empty(count, count_upper(blocks, len(factor)), dtype=factor.dtype, device=factor.device)


def count_upper(blocks: list[slice], size: int) -> int:
    """Entries of a square matrix in blocks of rows, each from the diagonal block on."""
    return sum((rows.stop - rows.start) * (size - rows.start) for rows in blocks)


def by_rows(
    stored: Float[Tensor, "count numbers"], blocks: list[slice], size: int
) -> Iterator[tuple[slice, list[Tensor]]]:
    """Each block of rows, with the part of every stored matrix from its diagonal block on."""
    start = 0
    for rows in blocks:
        shape = (rows.stop - rows.start, size - rows.start)
        stop = start + shape[0] * shape[1]
        yield rows, [each[start:stop].view(shape) for each in stored]
        start = stop


def _spread(
    own: Tensor, mirrored: Tensor, upper: Tensor, beside: Tensor, above: Tensor, rows: slice, scale: float
) -> None:
    """Add rows of a matrix times `beside` to `own`, and their mirror image times `above` to `mirrored`."""
    add_gradient_product(own[rows], upper, beside[rows.start :], scale)
    beyond = upper[:, rows.stop - rows.start :].mT
    if len(beyond):
        add_gradient_product(mirrored[rows.stop :], beyond, above[rows], scale)


def dense_kernel(weight: Float[Tensor, "k h"], gram: Float[Tensor, "h h"]) -> Float[Tensor, "k k"]:
    """C G Cᵀ for symmetric G."""
    return _DenseKernel.apply(weight, gram)  # type: ignore[no-untyped-call, no-any-return]


class _DenseKernel(torch.autograd.Function):
    """For a symmetric gradient S: ∂/∂C = 2S(CG) with the CG of the forward pass, ∂/∂G = Cᵀ(SC)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, gram: Tensor) -> Tensor:
        half = weight @ gram
        ctx.save_for_backward(weight, half)
        return symmetric_product(half, weight.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weight, half = ctx.saved_tensors
        share = torch.add(grad, grad.mT).mul_(0.5)
        grad_weight = gradient_product(share, half).mul_(2) if ctx.needs_input_grad[0] else None
        grad_gram = None
        if ctx.needs_input_grad[1]:
            grad_gram = symmetric_gradient_product(weight.mT, gradient_product(share, weight))
        return grad_weight, grad_gram


def kernel_overlap(kernel: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    """How much the latents' forms resemble each other: Σ_{i≠j} cos²(W_i, W_j) / k.

    Zero for orthogonal forms; each pair of copies adds 2/k. An empty form has no direction and adds nothing.
    """
    return _KernelOverlap.apply(kernel)  # type: ignore[no-untyped-call, no-any-return]


class _KernelOverlap(torch.autograd.Function):
    """∂/∂K_ij = 2K_ij / (K_ii K_jj) / k, and ∂/∂K_ii = −2 Σ_{j≠i} cos²_ij / K_ii / k: one k×k temporary each way."""

    @staticmethod
    def forward(ctx: Any, kernel: Tensor) -> Tensor:
        norms = kernel.diagonal()
        inverse = torch.where(norms > torch.finfo(norms.dtype).tiny, 1 / norms, 0)
        squares = kernel.square().mul_(inverse[:, None]).mul_(inverse)
        squares.diagonal().zero_()
        rows = squares.sum(1)
        ctx.save_for_backward(kernel, inverse, rows)
        return rows.sum() / len(kernel)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        kernel, inverse, rows = ctx.saved_tensors
        scale = 2 * grad / len(kernel)
        share: Tensor = (kernel * inverse[:, None]).mul_(inverse).mul_(scale)
        share.diagonal().copy_(-scale * rows * inverse)
        return share


def sparse_kernel(
    values: Float[Tensor, " nnz"], pattern: CsrPattern, gram: Float[Tensor, "cols cols"]
) -> Float[Tensor, "rows rows"]:
    """C G Cᵀ for sparse C and symmetric G, differentiable in C's values and in G."""
    return _SparseKernel.apply(values, pattern, gram)  # type: ignore[no-untyped-call, no-any-return]


class _SparseKernel(torch.autograd.Function):
    """Stores GCᵀ instead of G. For a symmetric gradient S: ∂/∂G = CᵀSC, and ∂/∂C = 2S(GCᵀ)ᵀ where C has entries."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pattern: CsrPattern, gram: Tensor) -> Tensor:
        sparse = csr_matrix(values, pattern)
        mixed = transposed_csr_product(sparse, gram)
        ctx.pattern = pattern
        ctx.save_for_backward(values, mixed)
        return csr_product(sparse, mixed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        values, mixed = ctx.saved_tensors
        share = torch.add(grad, grad.mT).mul_(0.5)
        grad_values = grad_gram = None
        if ctx.needs_input_grad[0]:
            grad_values = 2 * sampled_product(share, mixed.mT, ctx.pattern)
        if ctx.needs_input_grad[2]:
            transposed = csr_matrix(values[ctx.pattern.by_column], ctx.pattern.transposed())
            grad_gram = csr_product(transposed, transposed_csr_product(transposed, share))
        return grad_values, None, grad_gram
