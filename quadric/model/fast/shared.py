"""The kernel K = CGCᵀ computed by several processes, each doing its part of the work on G, K and their gradients.

A process computes some blocks of rows of G, each from its diagonal block on. With the diagonal blocks halved, its rows
are a matrix H, and those of all processes make up the Gram matrix and the kernel:

    G = Σ (H + Hᵀ),    K = Σ (C H Cᵀ + C Hᵀ Cᵀ),    both over processes.

Only the k×k parts of K are exchanged; no process ever holds G. In the backward pass the gradients of K with respect to
the tokens of every process are added up to S. From there on every process differentiates its own part of K, and the
gradients of L, R and C are added up over processes like those of the tokens. With the rows I of a block, the columns
J from I on, Y = H C_Jᵀ and V = S C_I,

    ∂/∂H = 2 Vᵀ C_J,    ∂/∂C_I = 2 S Yᵀ,    ∂/∂C_J = 2 V H.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.kernel import (
    add_gram_gradients,
    add_tied_gram_gradient,
    by_rows,
    count_upper,
    n_kept_overlaps,
    upper_rows,
    write_gram_rows,
    write_tied_gram_rows,
)
from quadric.model.products import (
    CsrPattern,
    csr_matrix,
    csr_pattern,
    csr_product,
    mirror,
    row_blocks,
    sampled_product,
    symmetric_part,
    transposed_csr_product,
)


class Share(NamedTuple):
    """Which part of the shared work a process does: its number, and the number of processes.

    Example:
        >>> [Share(number, 2).row_blocks(8) for number in range(2)]
        [[slice(0, 2, None), slice(6, 8, None)], [slice(2, 4, None), slice(4, 6, None)]]
    """

    number: int
    world_size: int

    def row_blocks(self, size: int) -> list[slice]:
        """This process's blocks of rows of a symmetric matrix, of which it computes the part from the diagonal on.

        That part gets shorter from the first block to the last. Dealt out to and fro, in an even number of rounds, the
        blocks give all processes the same area. There are at least as many blocks as one process would use, because
        smaller diagonal blocks leave out more of the lower triangle.
        """
        per_round = 2 * self.world_size
        n_blocks = per_round * -(-len(row_blocks(size)) // per_round)
        own = [slice(i * size // n_blocks, (i + 1) * size // n_blocks) for i in range(n_blocks) if self._has(i)]
        return [rows for rows in own if rows.start < rows.stop]

    def _has(self, block: int) -> bool:
        place = block % (2 * self.world_size)
        return self.number in (place, 2 * self.world_size - 1 - place)


class GramRows(NamedTuple):
    """One process's rows of G, each block from its diagonal block on, which is halved: the H of this module."""

    numbers: Float[Tensor, "1 numbers"]
    """All blocks in one piece, differentiable."""
    blocks: list[slice]
    size: int
    """Number of atoms."""

    def by_block(self) -> Iterator[tuple[slice, Tensor]]:
        """The rows of every block, and H there."""
        return ((rows, half) for rows, (half,) in by_rows(self.numbers, self.blocks, self.size))


def gram_rows(left: Float[Tensor, "h d"], right: Float[Tensor, "h d"], symmetric: bool, share: Share) -> GramRows:
    """This process's part of `atom_gram`.

    Args:
        left: L.
        right: R; the same tensor if the factors are tied.
        symmetric: whether the atoms are ½(l rᵀ + r lᵀ), or the printed l rᵀ.
        share: which part to compute.

    Returns:
        Rows H of the upper blocks, with G = Σ (H + Hᵀ) over all shares.

    Example:
        >>> left, right = torch.randn(2, 6, 4)
        >>> parts = [gram_rows(left, right, True, Share(number, 3)) for number in range(3)]
        >>> sum(len(part.blocks) for part in parts)
        6
    """
    blocks = share.row_blocks(len(left))
    inputs = (left, blocks) if right is left else (left, right, symmetric, blocks)
    function = _TiedGramRows if right is left else _GramRows
    return GramRows(function.apply(*inputs), blocks, len(left))  # type: ignore[no-untyped-call]


class _GramRows(torch.autograd.Function):
    """As `atom_gram`, on some rows."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, symmetric: bool, blocks: list[slice]) -> Tensor:
        numbers = upper_rows(1, blocks, left)
        kept = upper_rows(n_kept_overlaps(len(left), symmetric), blocks, left)
        kept_by_rows = by_rows(kept, blocks, len(left))
        for (rows, (half,)), (_, overlaps) in zip(by_rows(numbers, blocks, len(left)), kept_by_rows, strict=True):
            write_gram_rows(half, left, right, rows, overlaps)
            _diagonal_block(half).mul_(0.5)
        ctx.blocks = blocks
        ctx.save_for_backward(left, right, kept)
        return numbers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        left, right, kept = ctx.saved_tensors
        grad_left, grad_right = torch.zeros_like(left), torch.zeros_like(right)
        kept_by_rows = by_rows(kept, ctx.blocks, len(left))
        for (rows, (half,)), (_, overlaps) in zip(by_rows(grad, ctx.blocks, len(left)), kept_by_rows, strict=True):
            add_gram_gradients(grad_left, grad_right, _gradient_of_gram(half), left, right, rows, overlaps)
        return grad_left, grad_right, None, None


class _TiedGramRows(torch.autograd.Function):
    """As `atom_gram` of tied factors, on some rows."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, blocks: list[slice]) -> Tensor:
        numbers = upper_rows(1, blocks, left)
        for rows, (half,) in by_rows(numbers, blocks, len(left)):
            write_tied_gram_rows(half, left, rows)
            _diagonal_block(half).mul_(0.5)
        ctx.blocks = blocks
        ctx.save_for_backward(left)
        return numbers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (left,) = ctx.saved_tensors
        grad_left = torch.zeros_like(left)
        for rows, (half,) in by_rows(grad, ctx.blocks, len(left)):
            add_tied_gram_gradient(grad_left, _gradient_of_gram(half), left, rows)
        return grad_left, None


def _diagonal_block(half: Float[Tensor, "r c"]) -> Float[Tensor, "r r"]:
    return half[:, : len(half)]


def _gradient_of_gram(grad_half: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """Rows of the symmetric gradient of G, given that of H: H holds half of a diagonal block, and off the diagonal it
    stands for two blocks of G."""
    share = grad_half * 0.5
    diagonal = _diagonal_block(share)
    diagonal.copy_(torch.add(diagonal, diagonal.mT).mul_(0.5))
    return share


def atomic_kernel_part(rows: GramRows) -> Float[Tensor, "h h"]:
    """H + Hᵀ of one process, the part of K for C = I."""
    return _AtomicKernelPart.apply(rows.numbers, rows.blocks, rows.size)  # type: ignore[no-untyped-call, no-any-return]


class _AtomicKernelPart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor, blocks: list[slice], size: int) -> Tensor:
        kernel = numbers.new_zeros(size, size)
        for rows, (half,) in by_rows(numbers, blocks, size):
            kernel[rows, rows.start :] = half
            kernel[rows.start :, rows] += half.mT
        ctx.blocks = blocks
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        grad_numbers = upper_rows(1, ctx.blocks, grad)
        for rows, (half,) in by_rows(grad_numbers, ctx.blocks, len(grad)):
            torch.mul(symmetric_part(grad, rows), 2, out=half)
        return grad_numbers, None, None


def dense_kernel_part(weight: Float[Tensor, "k h"], rows: GramRows) -> Float[Tensor, "k k"]:
    """C(H + Hᵀ)Cᵀ of one process, for dense C."""
    return _DenseKernelPart.apply(weight, rows.numbers, rows.blocks)  # type: ignore[no-untyped-call, no-any-return]


class _DenseKernelPart(torch.autograd.Function):
    """Stores Y for every block, and H, which is 1/P of the upper half of G."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, numbers: Tensor, blocks: list[slice]) -> Tensor:
        n_latents, size = weight.shape
        product = weight.new_zeros(n_latents, n_latents)
        mixed = []
        for rows, (half,) in by_rows(numbers, blocks, size):
            mixed.append(half @ weight[:, rows.start :].mT)
            torch.addmm(product, weight[:, rows], mixed[-1], out=product)
        ctx.blocks = blocks
        ctx.save_for_backward(weight, numbers, *mixed)
        return torch.add(product, product.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, numbers, *mixed = ctx.saved_tensors
        share = torch.add(grad, grad.mT)  # 2S
        grad_weight, grad_numbers = torch.zeros_like(weight), torch.empty_like(numbers)
        grads, halves = (by_rows(each, ctx.blocks, weight.shape[1]) for each in (grad_numbers, numbers))
        for (rows, (grad_half,)), (_, (half,)), y in zip(grads, halves, mixed, strict=True):
            spread = share @ weight[:, rows]  # 2V
            torch.mm(spread.mT, weight[:, rows.start :], out=grad_half)
            if ctx.needs_input_grad[0]:
                own, beyond = grad_weight[:, rows], grad_weight[:, rows.start :]
                torch.addmm(own, share, y.mT, out=own)
                torch.addmm(beyond, spread, half, out=beyond)
        return grad_weight, grad_numbers, None


def sparse_kernel_part(values: Float[Tensor, " nnz"], pattern: CsrPattern, rows: GramRows) -> Float[Tensor, "k k"]:
    """C(H + Hᵀ)Cᵀ of one process, for sparse C, differentiable in C's values and in H."""
    return _SparseKernelPart.apply(values, pattern, rows.numbers, rows.blocks)  # type: ignore[no-untyped-call, no-any-return]


class _SparseKernelPart(torch.autograd.Function):
    """Stores Y for every block, and H."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pattern: CsrPattern, numbers: Tensor, blocks: list[slice]) -> Tensor:
        product = values.new_zeros(pattern.shape[0], pattern.shape[0])
        mixed, columns = [], []
        for rows, (half,) in by_rows(numbers, blocks, pattern.shape[1]):
            own = _columns(pattern, rows)
            beyond = _columns(pattern, slice(rows.start, pattern.shape[1]))
            mixed.append(transposed_csr_product(beyond.matrix(values), half.mT))
            product += csr_product(own.matrix(values), mixed[-1])
            columns.append((own, beyond))
        ctx.blocks, ctx.columns, ctx.size = blocks, columns, pattern.shape[1]
        ctx.save_for_backward(values, numbers, *mixed)
        return torch.add(product, product.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        values, numbers, *mixed = ctx.saved_tensors
        share = torch.add(grad, grad.mT)  # 2S
        grad_values, grad_numbers = torch.zeros_like(values), torch.empty_like(numbers)
        grads, halves = (by_rows(each, ctx.blocks, ctx.size) for each in (grad_numbers, numbers))
        for (_, (grad_half,)), (_, (half,)), y, (own, beyond) in zip(grads, halves, mixed, ctx.columns, strict=True):
            spread = transposed_csr_product(own.transposed_matrix(values), share)  # 2V
            grad_half.copy_(transposed_csr_product(beyond.transposed_matrix(values), spread))
            grad_values[own.entries] += sampled_product(share, y.mT, own.pattern)
            grad_values[beyond.entries] += sampled_product(spread, half, beyond.pattern)
        return grad_values, None, grad_numbers, None


class _Columns(NamedTuple):
    """Some columns of a sparse matrix."""

    pattern: CsrPattern
    entries: Int[Tensor, " some"]
    """Their entries, among those of the whole matrix."""

    def matrix(self, values: Float[Tensor, " nnz"]) -> Tensor:
        return csr_matrix(values[self.entries], self.pattern)

    def transposed_matrix(self, values: Float[Tensor, " nnz"]) -> Tensor:
        return csr_matrix(values[self.entries][self.pattern.by_column], self.pattern.transposed())


def _columns(pattern: CsrPattern, columns: slice) -> _Columns:
    inside = ((pattern.columns >= columns.start) & (pattern.columns < columns.stop)).nonzero()[:, 0]
    rows = torch.arange(pattern.shape[0], device=inside.device).repeat_interleave(pattern.row_starts.diff())
    shape = (pattern.shape[0], columns.stop - columns.start)
    return _Columns(csr_pattern(rows[inside], pattern.columns[inside] - columns.start, shape), inside)


# Products of matrices that every process holds, each computed in part by every process. The parts are copied to the
# other processes, so that all of them have the same bits.


def shared_symmetric_product(
    left: Float[Tensor, "m n"], right: Float[Tensor, "n m"], share: Share
) -> Float[Tensor, "m m"]:
    """`symmetric_product` of matrices that are the same on every process."""
    size = len(left)
    shares = [Share(number, share.world_size) for number in range(share.world_size)]
    longest = max(count_upper(each.row_blocks(size), size) for each in shares)
    own = left.new_empty(1, longest)
    for rows, (block,) in by_rows(own, share.row_blocks(size), size):
        torch.mm(left[rows], right[:, rows.start :], out=block)
    product = left.new_empty(size, size)
    for each, numbers in zip(shares, _gathered(own, share), strict=True):
        for rows, (block,) in by_rows(numbers, each.row_blocks(size), size):
            product[rows, rows.start :] = block
            mirror(product, rows)
    return product


def shared_product(left: Float[Tensor, "m c"], right: Float[Tensor, "c n"], share: Share) -> Float[Tensor, "m n"]:
    """AB of matrices that are the same on every process."""
    n_rows = -(-len(left) // share.world_size)
    own = left[share.number * n_rows : (share.number + 1) * n_rows]
    padded = left.new_empty(n_rows, right.shape[1])
    torch.mm(own, right, out=padded[: len(own)])
    return torch.cat(_gathered(padded, share))[: len(left)]


def _gathered(own: Tensor, share: Share) -> list[Tensor]:
    """The tensors of all processes, which have the same shape."""
    received = [torch.empty_like(own) for _ in range(share.world_size)]
    dist.all_gather(received, own)
    return received
