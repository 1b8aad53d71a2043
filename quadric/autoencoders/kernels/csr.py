"""Products with a dense matrix, C D and C G Cᵀ, whose sparse factor has trainable values on a fixed pattern."""

import warnings
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.symmetric import slices

COLUMNS_AT_ONCE = 512


class CsrPattern(NamedTuple):
    """Where the entries of a sparse matrix stand, by rows and, for its transpose, by columns."""

    row_starts: Int[Tensor, " rows+1"]
    columns: Int[Tensor, " nnz"]
    column_starts: Int[Tensor, " cols+1"]
    rows_by_column: Int[Tensor, " nnz"]
    by_column: Int[Tensor, " nnz"]
    """Order of the row-wise entries when read column by column."""
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
    """The pattern with entries at the given places, which are sorted by row and then by column."""
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


def sparse_kernel(
    values: Float[Tensor, " nnz"], pattern: CsrPattern, gram: Float[Tensor, "cols cols"]
) -> Float[Tensor, "rows rows"]:
    """C G Cᵀ for sparse C and symmetric G, differentiable in C's values and in G."""
    return _SparseKernel.apply(values, pattern, gram)  # type: ignore[no-untyped-call, no-any-return]


class _SparseKernel(torch.autograd.Function):
    """Keeps GCᵀ instead of G. For a symmetric gradient S: ∂/∂G = CᵀSC, and ∂/∂C = 2S(GCᵀ)ᵀ where C has entries."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pattern: CsrPattern, gram: Tensor) -> Tensor:
        sparse = csr_matrix(values, pattern)
        mixed = _transposed_product(sparse, gram)
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
            grad_gram = csr_product(transposed, _transposed_product(transposed, share))
        return grad_values, None, grad_gram


def csr_product(sparse: Tensor, dense: Float[Tensor, "cols m"]) -> Float[Tensor, "rows m"]:
    """Into memory of our own: the operator would fill and copy a second result of the same size."""
    product = torch.empty(sparse.shape[0], dense.shape[1], dtype=dense.dtype, device=dense.device)
    return torch.addmm(product, sparse, dense, beta=0, out=product)


def _transposed_product(sparse: Tensor, dense: Float[Tensor, "cols m"]) -> Float[Tensor, "m rows"]:
    """(AD)ᵀ row by row, as the next sparse product wants its right factor, without holding both layouts of it."""
    product = torch.empty(dense.shape[1], sparse.shape[0], dtype=dense.dtype, device=dense.device)
    for some in slices(len(product), COLUMNS_AT_ONCE):
        product[some] = csr_product(sparse, dense[:, some]).mT
    return product


def sampled_product(
    left: Float[Tensor, "rows m"], right: Float[Tensor, "m cols"], pattern: CsrPattern
) -> Float[Tensor, " nnz"]:
    """The entries of a dense product at the pattern's places; only those are computed."""
    blank = csr_matrix(left.new_zeros(len(pattern.columns)), pattern)
    product: Tensor = torch.sparse.sampled_addmm(blank, left.contiguous(), right, beta=0.0)
    return product.values()


def csr_matrix(values: Float[Tensor, " nnz"], pattern: CsrPattern) -> Tensor:
    """The sparse matrix itself, as torch holds it."""
    with warnings.catch_warnings():
        # torch calls its CSR layout beta, once a process; every use of it here is tested against dense products.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            pattern.row_starts, pattern.columns, values, pattern.shape, check_invariants=False
        )
