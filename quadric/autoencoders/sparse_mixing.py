"""The products that a sparse C is asked for, over all atoms or over the live ones alone.

An atom that no latent uses (an empty column of C) changes no latent and gets no gradient. At a density of 0.1 % and
two atoms a latent that is one atom in seven before training, and leaving them out leaves a quarter of G out.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.autoencoders.kernels.csr import CsrPattern, csr_matmul, sparse_kernel
from quadric.autoencoders.kernels.sparse_latents import sparse_latents


class LivePattern(NamedTuple):
    """The atoms that have entries, and the pattern with only their columns."""

    atoms: Int[Tensor, " live"]
    pattern: CsrPattern


class SparseMixing(NamedTuple):
    """Entries of C, with the answers of a mixing."""

    values: Float[Tensor, " nnz"]
    pattern: CsrPattern

    def latents(
        self, tokens: Float[Tensor, "n d"], left: Float[Tensor, "h d"], right: Float[Tensor, "h d"]
    ) -> Float[Tensor, "n k"]:
        return sparse_latents(tokens, left, right, self.values.to(tokens.dtype), self.pattern)

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        return csr_matmul(self.values.to(atoms.dtype), self.pattern, atoms.mT).mT

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        values = self.values.to(latents.dtype)[self.pattern.by_column]
        return csr_matmul(values, self.pattern.transposed(), latents.mT).mT

    def kernel(self, gram: Float[Tensor, "h h"]) -> Float[Tensor, "k k"]:
        return sparse_kernel(self.values.to(gram.dtype), self.pattern, gram)


def live_pattern(pattern: CsrPattern) -> LivePattern:
    """Number the columns that have entries anew; their order stays, and with it the order of the entries."""
    atoms = pattern.column_starts.diff().nonzero()[:, 0]
    numbers = torch.zeros(pattern.shape[1], dtype=torch.long, device=atoms.device)
    numbers[atoms] = torch.arange(len(atoms), device=atoms.device)
    ends = pattern.column_starts[-1:]
    return LivePattern(
        atoms,
        pattern._replace(
            columns=numbers[pattern.columns],
            column_starts=torch.cat([pattern.column_starts[atoms], ends]),
            shape=(pattern.shape[0], len(atoms)),
        ),
    )
