"""The overlap between latents' forms, estimated from a sample of the latents: above 16,384 atoms K is not formed."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.model.fast.kernel import atom_gram, kernel_overlap, sparse_kernel
from quadric.model.fast.lifted import SparseRows
from quadric.model.products import CsrPattern, csr_pattern

SAMPLED_ENTRIES = 4_096
"""Entries of C that belong to the sampled latents together, so that the Gram matrix of their atoms takes at most
64 MiB."""


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
