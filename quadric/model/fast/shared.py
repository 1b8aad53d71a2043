"""The kernel K = CGCᵀ computed by several processes, each doing its part of the work on G, K and their gradients.

A process computes some blocks of rows of G, each from its diagonal block on. With the diagonal blocks halved, its rows
are a matrix H, and those of all processes make up the Gram matrix and the kernel:

    G = Σ (H + Hᵀ),    K = Σ (C H Cᵀ + C Hᵀ Cᵀ),    both over processes.

Only the k×k parts of K are exchanged; no process ever holds G. In the backward pass the gradients of K with respect to
the tokens of every process are added up. From there on every process differentiates its own part of K, and the
gradients of L, R and C are added up over processes like those of the tokens.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from quadric.model.fast.kernel import atom_gram_rows, by_rows, count_upper
from quadric.model.fast.products import CsrPattern, csr_matmul, csr_pattern, mirror, row_blocks


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
    return GramRows(atom_gram_rows(left, right, symmetric, blocks), blocks, len(left))


def atomic_kernel_part(rows: GramRows) -> Float[Tensor, "h h"]:
    """H + Hᵀ of one process, the part of K for C = I."""
    half = rows.numbers.new_zeros(rows.size, rows.size)
    for some, block in rows.by_block():
        half[some, some.start :] = block
    return half + half.mT


def dense_kernel_part(weight: Float[Tensor, "k h"], rows: GramRows) -> Float[Tensor, "k k"]:
    """C(H + Hᵀ)Cᵀ of one process, for dense C."""
    product = weight.new_zeros(len(weight), len(weight))
    for some, half in rows.by_block():
        product = torch.addmm(product, weight[:, some], half @ weight[:, some.start :].mT)
    return product + product.mT


def sparse_kernel_part(values: Float[Tensor, " nnz"], pattern: CsrPattern, rows: GramRows) -> Float[Tensor, "k k"]:
    """C(H + Hᵀ)Cᵀ of one process, for sparse C, differentiable in C's values and in H."""
    product = values.new_zeros(pattern.shape[0], pattern.shape[0])
    for some, half in rows.by_block():
        beyond = _times_columns(values, pattern, slice(some.start, pattern.shape[1]), half.mT)
        product = product + _times_columns(values, pattern, some, beyond.mT)
    return product + product.mT


def _times_columns(
    values: Float[Tensor, " nnz"], pattern: CsrPattern, columns: slice, dense: Float[Tensor, "some m"]
) -> Float[Tensor, "rows m"]:
    """Some columns of a sparse matrix times a dense one."""
    inside = ((pattern.columns >= columns.start) & (pattern.columns < columns.stop)).nonzero()[:, 0]
    rows = torch.arange(pattern.shape[0], device=inside.device).repeat_interleave(pattern.row_starts.diff())
    shape = (pattern.shape[0], columns.stop - columns.start)
    some = csr_pattern(rows[inside], pattern.columns[inside] - columns.start, shape)
    return csr_matmul(values[inside], some, dense.contiguous())


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
