"""The leading eigenspace of the operator WᵀW on the product space: the part of xxᵀ that an autoencoder keeps best."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST_DENSE = 1_024
"""Largest number of latents for a dense eigendecomposition of the kernel; beyond, Lanczos finds the leading pairs."""


class Eigenspace(NamedTuple):
    """Orthonormal eigenforms E_a = Σ_i coefficients_ia W_i of WᵀW, by eigenvalue descending."""

    eigenvalues: Float[Tensor, " p"]
    coefficients: Float[Tensor, "k p"]

    def __repr__(self) -> str:
        k, p = self.coefficients.shape
        return f"Eigenspace({p} eigenforms of {k:,} latents)"


def leading_eigenspace(kernel: Float[Tensor, "k k"], count: int) -> Eigenspace:
    """The `count` leading eigenforms, or as many as the rank of K allows: if Kv = λv, then Σ_i v_i W_i / √λ is one."""
    if count < 1:
        raise ValueError(f"count={count} is not positive; give the dimension of the eigenspace")
    values, vectors = leading_eigenpairs(kernel, min(count, len(kernel)))
    noise = len(kernel) * torch.finfo(kernel.dtype).eps * float(values.max().clamp(min=0))
    kept = values > noise
    return Eigenspace(values[kept], vectors[:, kept] / values[kept].sqrt())


def leading_eigenpairs(
    kernel: Float[Tensor, "k k"], count: int
) -> tuple[Float[Tensor, " count"], Float[Tensor, "k count"]]:
    """The `count` largest eigenvalues of a positive semidefinite matrix, descending, and their eigenvectors."""
    if len(kernel) <= LARGEST_DENSE or 2 * count >= len(kernel):
        values, vectors = torch.linalg.eigh((kernel.double() + kernel.double().mT) / 2)
        return values.flip(0)[:count], vectors.flip(1)[:, :count]
    from scipy.sparse.linalg import eigsh  # imported here: the import takes longer than most reports

    matrix = kernel.cpu().numpy()
    # A fixed start vector, so that the same kernel always gives the same eigenvectors.
    values, vectors = eigsh(matrix, k=count, which="LA", v0=matrix.sum(0) + 1)
    return torch.from_numpy(values[::-1].copy()).double(), torch.from_numpy(vectors[:, ::-1].copy()).double()
