"""The leading eigenspaces of the operator WᵀW on the product space: what an autoencoder keeps best of xxᵀ."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST_DENSE = 1_024
"""Latents up to which all eigenpairs of a kernel are found at once; beyond, only the leading ones by Lanczos."""


class Eigenspace(NamedTuple):
    """Orthonormal eigenforms E_a = Σ_i coefficients_ia W_i of WᵀW, by eigenvalue descending."""

    eigenvalues: Float[Tensor, " p"]
    coefficients: Float[Tensor, "k p"]


def leading_eigenspace(kernel: Float[Tensor, "k k"], count: int) -> Eigenspace:
    """The `count` leading eigenforms, or as many as the rank of K allows: if Kv = λv, then Σ_i v_i W_i / √λ is one."""
    if count < 1:
        raise ValueError(f"count={count} is not positive; give the dimension of the eigenspace")
    values, vectors = _leading(kernel, min(count, len(kernel)))
    noise = len(kernel) * torch.finfo(kernel.dtype).eps * float(values.max().clamp(min=0))
    kept = values > noise
    return Eigenspace(values[kept], vectors[:, kept] / values[kept].sqrt())


def _leading(kernel: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if len(kernel) <= LARGEST_DENSE or 2 * count >= len(kernel):
        values, vectors = torch.linalg.eigh((kernel.double() + kernel.double().mT) / 2)
        return values.flip(0)[:count], vectors.flip(1)[:, :count]
    from scipy.sparse.linalg import eigsh  # here: it takes longer to import than most reports need

    matrix = kernel.cpu().numpy()
    # Without a fixed start, the same kernel would give slightly different eigenvectors every time.
    values, vectors = eigsh(matrix, k=count, which="LA", v0=matrix.sum(0) + 1)
    return torch.from_numpy(values[::-1].copy()).double(), torch.from_numpy(vectors[:, ::-1].copy()).double()
