"""Eigenpairs of symmetric matrices that are sums of a few terms, computed in the small span of those terms.

W = Σ_j w_j ½(l_j r_jᵀ + r_j l_jᵀ) is zero outside the span of its l_j and r_j. With a QR decomposition of the
stacked vectors, W = Q S Qᵀ, and only the eigenproblem of the small S remains. Terms that span the whole space are
added up to a d×d matrix instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Eigenpairs(NamedTuple):
    """W = U diag(λ) Uᵀ, by |λ| descending."""

    eigenvalues: Float[Tensor, "*batch r"]
    eigenvectors: Float[Tensor, "*batch d r"]

    def __repr__(self) -> str:
        if self.eigenvalues.dim() != 1:
            return f"Eigenpairs({self.eigenvalues.shape[-1]} of each of {self.eigenvalues[..., 0].numel()} matrices)"
        shown = ", ".join(f"{value:.3g}" for value in self.eigenvalues[:5].tolist())
        more = ", …" if len(self.eigenvalues) > 5 else ""
        return (
            f"Eigenpairs({len(self.eigenvalues)} in d_model={self.eigenvectors.shape[0]}: λ = {shown or 'none'}{more})"
        )


def eigenpairs(
    left: Float[Tensor, "*batch m d"], right: Float[Tensor, "*batch m d"], weights: Float[Tensor, "*batch m"]
) -> Eigenpairs:
    """All eigenpairs in the span of the terms; eigenvalues below the rounding of the terms are exactly zero.

    Terms that span the whole space are added up in the precision of the factors; everything else is float64.
    """
    vectors = _stacked(left, right)
    if vectors.shape[-2] < vectors.shape[-1]:
        with _one_thread():
            basis, coordinates = torch.linalg.qr(vectors.double().mT)
            values, rotation = torch.linalg.eigh(_core(coordinates, weights))
            directions = basis @ rotation
    else:
        values, directions = torch.linalg.eigh(_matrix(left, right, weights))
    values = _without_rounding(values, left, right, weights)
    order = values.abs().argsort(dim=-1, descending=True, stable=True)
    return Eigenpairs(values.gather(-1, order), directions.gather(-1, order[..., None, :].expand_as(directions)))


def eigenvalues(
    left: Float[Tensor, "*batch m d"], right: Float[Tensor, "*batch m d"], weights: Float[Tensor, "*batch m"]
) -> Float[Tensor, "*batch r"]:
    """The eigenvalues alone, at a fraction of the cost."""
    vectors = _stacked(left, right)
    if vectors.shape[-2] < vectors.shape[-1]:
        with _one_thread():
            values = torch.linalg.eigvalsh(_core(torch.linalg.qr(vectors.double().mT, mode="r").R, weights))
    else:
        values = torch.linalg.eigvalsh(_matrix(left, right, weights))
    values = _without_rounding(values, left, right, weights)
    return values.gather(-1, values.abs().argsort(dim=-1, descending=True, stable=True))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: on a small factorization, several spend more time on synchronization than on work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _stacked(left: Tensor, right: Tensor) -> Tensor:
    """The vectors that span the matrix: half as many where l_j = r_j throughout."""
    return left if torch.equal(left, right) else torch.cat([left, right], dim=-2)


def _core(coordinates: Tensor, weights: Tensor) -> Tensor:
    """S = ½(R_l diag(w) R_rᵀ + its transpose), from the coordinates of the stacked vectors in their basis."""
    m = weights.shape[-1]
    half = (coordinates[..., :m] * weights.double()[..., None, :]) @ coordinates[..., -m:].mT
    return (half + half.mT) / 2


def _matrix(left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
    """W itself, added up in the precision of its factors."""
    half = left.mT @ (weights[..., None].to(right) * right)
    return (half + half.mT).double() / 2


def _without_rounding(values: Tensor, left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
    """Set eigenvalues below rounding to zero; since terms may cancel, rounding is relative to their size, not W's."""
    norms = torch.linalg.vector_norm(left, dim=-1) * torch.linalg.vector_norm(right, dim=-1)
    size = (weights.abs() * norms).sum(-1, keepdim=True).double()
    floor = torch.finfo(values.dtype).eps * max(1, values.shape[-1]) * size
    return torch.where(values.abs() <= floor, 0, values)
