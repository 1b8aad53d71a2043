"""Matrix products that the rest of the package is built from.

symmetric  the result is known to be symmetric: only blocks on and above the diagonal are computed, then mirrored,
           which saves up to 44 % of the multiplications at full speed, down to blocks of 256 rows
gradient   may use bfloat16 factors, while the error never does
sparse     one factor is a CSR matrix with trainable values on a fixed pattern
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.devices import CPU, has_bfloat16, has_csr

SMALLEST_BLOCK = 256
MOST_BLOCKS = 8
COLUMNS_AT_ONCE = 512
"""Columns of a sparse product that are transposed together."""
MOST_KEPT = 2**24
"""Fewer numbers than this (64 MiB in float32) are kept for the backward pass; more are computed again there. Where a
step takes little memory, time counts for more."""
_chosen: list[str] = ["auto"]


def slices(size: int, step: int) -> list[slice]:
    """0 … size in steps; the last slice may be shorter."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def row_blocks(size: int) -> list[slice]:
    """Equal blocks of rows: enough of them to skip most of a triangle, large enough to multiply at full speed."""
    n_blocks = min(max(size // SMALLEST_BLOCK, 1), MOST_BLOCKS)
    return slices(size, max(1, -(-size // n_blocks)))


def block_pairs(size: int, block_size: int) -> Iterator[tuple[slice, slice]]:
    """Row and column slices of the blocks on and above the diagonal of a symmetric matrix."""
    blocks = slices(size, block_size)
    return ((row, column) for i, row in enumerate(blocks) for column in blocks[i:])


def symmetric_product(left: Float[Tensor, "m n"], right: Float[Tensor, "n m"]) -> Float[Tensor, "m m"]:
    """AB where AB is known to be symmetric: XXᵀ, a weighted XWXᵀ, or a product of commuting symmetric matrices."""
    size = len(left)
    blocks = row_blocks(size)
    if len(blocks) == 1:
        return left @ right
    product = torch.empty(size, size, dtype=left.dtype, device=left.device)
    for rows in blocks:
        torch.mm(left[rows], right[:, rows.start :], out=product[rows, rows.start :])
        mirror(product, rows)
    return product


def weighted_gram(matrix: Float[Tensor, "m n"], weights: Float[Tensor, " n"]) -> Float[Tensor, "m m"]:
    """X diag(w) Xᵀ, without a weighted copy of all of X."""
    size = len(matrix)
    product = torch.empty(size, size, dtype=matrix.dtype, device=matrix.device)
    for rows in row_blocks(size):
        torch.mm(matrix[rows] * weights, matrix[rows.start :].mT, out=product[rows, rows.start :])
        mirror(product, rows)
    return product


def mirror(matrix: Float[Tensor, "m m"], rows: slice) -> None:
    """Copy the part to the right of a diagonal block to its mirror image below the block."""
    matrix[rows.stop :, rows] = matrix[rows, rows.stop :].mT


def symmetric_part(matrix: Float[Tensor, "m m"], rows: slice) -> Float[Tensor, "r c"]:
    """Rows of ½(M + Mᵀ), from their diagonal block on."""
    return torch.add(matrix[rows, rows.start :], matrix[rows.start :, rows].mT).mul_(0.5)


# The error zᵀKz − 2‖z‖² + 1 cancels, so all of its terms stay in float32. The gradients of L, R and dense C are sums
# over thousands of tokens or atoms that Muon then orthogonalizes; their factors may be rounded to bfloat16 where that
# is faster. The sums are accumulated in float32.


@contextmanager
def gradient_products_in(dtype: str) -> Iterator[None]:
    """Compute gradients of L, R and dense C from factors of this type, in the whole process.

    float32, bfloat16, or auto: bfloat16 where the device has it in hardware, and float32 elsewhere.

    Not a context variable: autograd runs the backward pass of a GPU in threads of its own, which would not see it.
    """
    _chosen.append(dtype)
    try:
        yield
    finally:
        _chosen.pop()


def write_gradient_product(
    target: Float[Tensor, "m n"], left: Float[Tensor, "m c"], right: Float[Tensor, "c n"]
) -> None:
    """target ← left @ right."""
    if _is_rounded(target):
        target.copy_(left.bfloat16() @ right.bfloat16())
    else:
        torch.mm(left, right, out=target)


def add_gradient_product(
    target: Float[Tensor, "m n"], left: Float[Tensor, "m c"], right: Float[Tensor, "c n"], scale: float
) -> None:
    """target ← target + scale · left @ right."""
    if _is_rounded(target):
        target.add_(left.bfloat16() @ right.bfloat16(), alpha=scale)
    else:
        torch.addmm(target, left, right, alpha=scale, out=target)


def gradient_product(left: Float[Tensor, "m c"], right: Float[Tensor, "c n"]) -> Float[Tensor, "m n"]:
    """left @ right."""
    return (left.bfloat16() @ right.bfloat16()).float() if _is_rounded(left) else left @ right


def symmetric_gradient_product(left: Float[Tensor, "m n"], right: Float[Tensor, "n m"]) -> Float[Tensor, "m m"]:
    """left @ right where it is known to be symmetric."""
    if _is_rounded(left):
        return symmetric_product(left.bfloat16(), right.bfloat16()).float()
    return symmetric_product(left, right)


def _is_rounded(target: Tensor) -> bool:
    dtype = _chosen[-1]
    wanted = dtype == "bfloat16" or (dtype == "auto" and has_bfloat16(target.device))
    return wanted and target.dtype == torch.float32


class CsrPattern(NamedTuple):
    """Positions of the entries of a sparse matrix, by rows and, for its transpose, by columns."""

    row_starts: Int[Tensor, " rows+1"]
    columns: Int[Tensor, " nnz"]
    column_starts: Int[Tensor, " cols+1"]
    rows_by_column: Int[Tensor, " nnz"]
    by_column: Int[Tensor, " nnz"]
    """Permutation from row order to column order."""
    by_row: Int[Tensor, " nnz"]
    """The inverse of `by_column`."""
    shape: tuple[int, int]

    def transposed(self) -> "CsrPattern":
        """The pattern of the transpose, whose values are `values[by_column]`."""
        return CsrPattern(
            row_starts=self.column_starts,
            columns=self.rows_by_column,
            column_starts=self.row_starts,
            rows_by_column=self.columns,
            by_column=self.by_row,
            by_row=self.by_column,
            shape=(self.shape[1], self.shape[0]),
        )


def csr_pattern(rows: Int[Tensor, " nnz"], columns: Int[Tensor, " nnz"], shape: tuple[int, int]) -> CsrPattern:
    """The pattern with entries at the given positions, sorted by row and then by column."""
    by_column = torch.argsort(columns, stable=True)
    return CsrPattern(
        row_starts=_starts(rows, shape[0]),
        columns=columns,
        column_starts=_starts(columns, shape[1]),
        rows_by_column=rows[by_column],
        by_column=by_column,
        by_row=torch.argsort(by_column),
        shape=shape,
    )


def _starts(indices: Tensor, size: int) -> Tensor:
    counts = torch.bincount(indices, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def dense_mix(weight: Float[Tensor, "k h"], atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
    """yCᵀ for dense C, stored latent by latent."""
    return _DenseMix.apply(weight, atoms.mT).mT  # type: ignore[no-untyped-call, no-any-return]


class _DenseMix(torch.autograd.Function):
    """A plain product, whose gradients are gradient products."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, by_atom: Tensor) -> Tensor:
        ctx.save_for_backward(weight, by_atom)
        return weight @ by_atom

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weight, by_atom = ctx.saved_tensors
        grad_weight = gradient_product(grad, by_atom.mT) if ctx.needs_input_grad[0] else None
        grad_atoms = gradient_product(weight.mT, grad) if ctx.needs_input_grad[1] else None
        return grad_weight, grad_atoms


def csr_matmul(
    values: Float[Tensor, " nnz"], pattern: CsrPattern, dense: Float[Tensor, "cols m"]
) -> Float[Tensor, "rows m"]:
    """C @ D for sparse C, differentiable in C's values and in D."""
    return _CsrMatmul.apply(values, pattern, dense)  # type: ignore[no-untyped-call, no-any-return]


class _CsrMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, pattern: CsrPattern, dense: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, dense)
        return csr_product(csr_matrix(values, pattern), dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        values, dense = ctx.saved_tensors
        grad_values = grad_dense = None
        if ctx.needs_input_grad[0]:
            grad_values = sampled_product(grad, dense.mT, ctx.pattern)
        if ctx.needs_input_grad[2]:
            grad_dense = csr_product(csr_matrix(values[ctx.pattern.by_column], ctx.pattern.transposed()), grad)
        return grad_values, None, grad_dense


def csr_product(
    sparse: Tensor, dense: Float[Tensor, "cols m"], out: Float[Tensor, "rows m"] | None = None
) -> Float[Tensor, "rows m"]:
    """C @ D into preallocated memory: the `@` operator would fill and copy a second result of the same size."""
    if sparse.device != dense.device:  # that device has no CSR
        product = csr_product(sparse, dense.to(sparse.device))
        return product.to(dense.device) if out is None else out.copy_(product)
    if out is None:
        out = torch.empty(sparse.shape[0], dense.shape[1], dtype=dense.dtype, device=dense.device)
    return torch.addmm(out, sparse, dense, beta=0, out=out)


def transposed_csr_product(sparse: Tensor, dense: Float[Tensor, "cols m"]) -> Float[Tensor, "m rows"]:
    """(CD)ᵀ in row-major order, which the next sparse product needs, without holding both layouts at once."""
    product = torch.empty(dense.shape[1], sparse.shape[0], dtype=dense.dtype, device=dense.device)
    for some in slices(len(product), COLUMNS_AT_ONCE):
        product[some] = csr_product(sparse, dense[:, some]).mT
    return product


def sampled_product(
    left: Float[Tensor, "rows m"], right: Float[Tensor, "m cols"], pattern: CsrPattern
) -> Float[Tensor, " nnz"]:
    """The entries of a dense product at the pattern's positions; no others are computed."""
    blank = csr_matrix(left.new_zeros(len(pattern.columns)), pattern)
    place = blank.device
    product: Tensor = torch.sparse.sampled_addmm(blank, left.contiguous().to(place), right.to(place), beta=0.0)
    return product.values().to(left.device)


def csr_matrix(values: Float[Tensor, " nnz"], pattern: CsrPattern) -> Tensor:
    """The matrix as a torch sparse CSR tensor; on the CPU where the device of the values has none."""
    place = values.device if has_csr(values.device) else CPU
    with warnings.catch_warnings():
        # torch warns once per process that its CSR layout is beta; every use here is tested against dense products.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            pattern.row_starts.to(place),
            pattern.columns.to(place),
            values.to(place),
            pattern.shape,
            check_invariants=False,
        )
