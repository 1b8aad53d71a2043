"""Eigenvalues and eigenvectors of forms, computed in the small span of their terms, from weights alone.

W = Σ_j w_j ½(l_j r_jᵀ + r_j l_jᵀ) is zero outside the span of its l_j and r_j. With a QR decomposition of the
stacked vectors, W = Q S Qᵀ, and only the eigenproblem of the small S remains. Terms that span the whole space are
added up to a d×d matrix instead.

`spectra` are those of every latent's whole form, in the lens's coordinates. With an affine lens those are [v; c], one
more than the token has: `quadric.geometry.decompose` splits the forms into their quadratic, linear and constant parts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.dictionary import term_batches
from quadric.model import Dictionary
from quadric.model.forms import Forms

LARGEST_DENSE = 1_024
"""Largest number of latents for a dense eigendecomposition of the kernel; beyond, Lanczos finds the leading pairs."""


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


class SpectrumBatch(NamedTuple):
    """The eigenpairs of some latents, by |λ| descending; those beyond a latent's rank have λ = 0."""

    latents: Int[Tensor, " b"]
    eigenvalues: Float[Tensor, "b r"]
    eigenvectors: Float[Tensor, "b d r"]

    def __repr__(self) -> str:
        b, d, r = self.eigenvectors.shape
        return f"SpectrumBatch({b} latents, {r} eigenpairs each, d_model={d})"


def spectra(autoencoder: Dictionary | Forms) -> Iterator[SpectrumBatch]:
    """The eigenpairs of all latents, batch by batch, since the eigenvectors of all rarely fit into memory.

    Args:
        autoencoder: Any dictionary.

    Returns:
        An iterator of batches: latents, eigenvalues (b, r) by |λ| descending, eigenvectors (b, d, r).

    Example:
        >>> sum(len(batch.latents) for batch in geometry.spectra(ae)) == ae.n_latents
        True
    """
    for latents, left, right, weights in term_batches(autoencoder):
        yield SpectrumBatch(latents, *eigenpairs(left, right, weights))


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


def padded_table(rows: list[tuple[Tensor, Tensor]], n_latents: int) -> Float[Tensor, "k r"]:
    """Eigenvalues of batches of latents as one table, padded with zeros to the longest row."""
    table = torch.zeros(n_latents, max(values.shape[1] for _, values in rows), dtype=torch.float64)
    for latents, values in rows:
        table[latents, : values.shape[1]] = values
    return table


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
    found = (torch.from_numpy(each[..., ::-1].copy()).double().to(kernel.device) for each in (values, vectors))
    return next(found), next(found)


def effective_rank(eigenvalues: Float[Tensor, "*k r"]) -> Float[Tensor, "*k"]:
    """(Σ|λ|)² / Σλ²: r for r equal eigenvalues, 0 for none."""
    return ratio(eigenvalues.abs().sum(-1).square(), eigenvalues.square().sum(-1))


def captured_curve(eigenvalues: Float[Tensor, "*k r"]) -> Float[Tensor, "*k r"]:
    """Share of Σ|λ| in the first 1, 2, … eigenvalues, which come by |λ| descending."""
    running = eigenvalues.abs().cumsum(-1)
    return ratio(running, running[..., -1:])


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and 0 where `whole` is 0."""
    return torch.where(whole == 0, 0, part / torch.where(whole == 0, 1, whole))
