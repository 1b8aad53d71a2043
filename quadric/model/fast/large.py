"""What takes the place of G and K where they do not fit in memory.

The quadratic term of the error is zᵀKz = wᵀGw with w = Cᵀz. G is computed block by block, once in the forward and once
in the backward pass, and never stored. The overlap between forms is estimated from a sample of the latents.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.kernel import atom_gram, cross_gram, kernel_overlap, sparse_kernel
from quadric.model.fast.lifted import SparseRows
from quadric.model.fast.products import CsrPattern, block_pairs, csr_pattern

SAMPLED_ENTRIES = 4_096
"""Entries of C that belong to the sampled latents together, so that the Gram matrix of their atoms takes at most
64 MiB."""


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


def sampled_overlap(
    left: Float[Tensor, "u w"], right: Float[Tensor, "u w"], rows: SparseRows, symmetric: bool, *, seed: int
) -> Float[Tensor, ""]:
    """An unbiased estimate of Σ_{i≠j} cos²(W_i, W_j) / k, from pairs of some latents.

    Args:
        left: L.
        right: R; the same tensor if the factors are the same.
        rows: C.
        symmetric: False for printed atoms l rᵀ.
        seed: of the sample; the same on every process.
    """
    latents = sampled_latents(rows.pattern, seed)
    if len(latents) < 2:
        return (left.sum() + rows.values.sum()) * 0
    entries, owners = _entries_of(latents, rows.pattern)
    atoms, columns = torch.unique(rows.pattern.columns[entries], return_inverse=True)
    pattern = csr_pattern(owners, columns, (len(latents), len(atoms)))
    some_left = left.index_select(0, atoms)
    gram = atom_gram(some_left, some_left if right is left else right.index_select(0, atoms), symmetric)
    kernel = sparse_kernel(rows.values[entries], pattern, gram)
    # A latent has k − 1 others, of which the sample has n − 1.
    return kernel_overlap(kernel) * ((rows.pattern.shape[0] - 1) / (len(latents) - 1))


def sampled_latents(pattern: CsrPattern, seed: int) -> Int[Tensor, " n"]:
    """Latents in random order until they have `SAMPLED_ENTRIES` entries; at least two if there are as many."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(pattern.shape[0], generator=generator).to(pattern.columns.device)
    taken = int((pattern.row_starts.diff()[order].cumsum(0) <= SAMPLED_ENTRIES).sum())
    return order[: max(2, taken)].sort().values


def _entries_of(latents: Int[Tensor, " n"], pattern: CsrPattern) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
    """Positions of the entries of some latents, and which of these latents each belongs to."""
    lengths = pattern.row_starts.diff()[latents]
    owners = torch.arange(len(latents), device=latents.device).repeat_interleave(lengths)
    before = lengths.cumsum(0) - lengths
    places = torch.arange(len(owners), device=latents.device) - before[owners]
    return pattern.row_starts[latents][owners] + places, owners
