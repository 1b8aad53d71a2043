"""Latents and kernels for every storage of C: the identity, a dense matrix, or entries."""

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.fast.kernel import dense_kernel, sparse_kernel
from quadric.model.fast.latents import atom_activations, sparse_latents
from quadric.model.fast.lifted import SparseRows
from quadric.model.fast.shared import GramRows, atomic_kernel_part, dense_kernel_part, sparse_kernel_part
from quadric.model.mixing import Identity, Mixing, Sparse
from quadric.model.products import csr_pattern, dense_mix


def latents_of(
    mixing: Mixing, tokens: Float[Tensor, "n d"], left: Float[Tensor, "u d"], right: Float[Tensor, "u d"]
) -> Float[Tensor, "n k"]:
    """z = C((Lx)∘(Rx)), given the factors of the used atoms."""
    if isinstance(mixing, Sparse):
        return sparse_latents(tokens, left, right, mixing.values.to(tokens.dtype), mixing.used_pattern)
    atoms = atom_activations(tokens, left, right)
    return atoms if isinstance(mixing, Identity) else dense_mix(mixing.matrix().to(atoms.dtype), atoms)


def kernel_of(mixing: Mixing, gram: Float[Tensor, "u u"]) -> Float[Tensor, "k k"]:
    """K = CGCᵀ, given the Gram matrix of the used atoms."""
    if isinstance(mixing, Identity):
        return gram
    if isinstance(mixing, Sparse):
        return sparse_kernel(mixing.values.to(gram.dtype), mixing.used_pattern, gram)
    return dense_kernel(mixing.matrix().to(gram.dtype), gram)


def kernel_part_of(mixing: Mixing, rows: GramRows) -> Float[Tensor, "k k"]:
    """One process's part of K, given its rows of the Gram matrix; K is the sum over processes."""
    if isinstance(mixing, Identity):
        return atomic_kernel_part(rows)
    if isinstance(mixing, Sparse):
        return sparse_kernel_part(mixing.values.to(rows.numbers.dtype), mixing.used_pattern, rows)
    return dense_kernel_part(mixing.matrix().to(rows.numbers.dtype), rows)


def sparse_rows_of(mixing: Mixing, like: Tensor) -> SparseRows | None:
    """The entries of C among the used atoms, in the precision of `like`; None if C is stored densely."""
    if isinstance(mixing, Sparse):
        return SparseRows(mixing.values.to(like.dtype), mixing.used_pattern)
    if not isinstance(mixing, Identity):
        return None
    numbers = torch.arange(mixing.shape[0], device=like.device)
    return SparseRows(like.new_ones(mixing.shape[0]), csr_pattern(numbers, numbers, mixing.shape))
