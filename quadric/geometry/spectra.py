"""The eigenvalues and eigenvectors of every latent's whole form, in the lens's coordinates, from weights alone.

With an affine lens those are [v; c], one more than the token has: `quadric.geometry.decompose` splits the forms into
their quadratic, linear and constant parts instead.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.geometry.dictionary import term_batches
from quadric.geometry.eigenpairs import Eigenpairs, eigenpairs, eigenvalues
from quadric.geometry.forms import latent_form
from quadric.model import Autoencoder


class SpectrumBatch(NamedTuple):
    """The eigenpairs of some latents, by |λ| descending; those beyond a latent's rank have λ = 0."""

    latents: Int[Tensor, " b"]
    eigenvalues: Float[Tensor, "b r"]
    eigenvectors: Float[Tensor, "b d r"]

    def __repr__(self) -> str:
        b, d, r = self.eigenvectors.shape
        return f"SpectrumBatch({b} latents, {r} eigenpairs each, d_model={d})"


def spectrum(autoencoder: Autoencoder, latent: int) -> Eigenpairs:
    """Compute the eigenvalues and eigenvectors of one latent's W_i.

    W_i = U diag(λ) Uᵀ to float64 rounding; eigenvalues below that rounding count as zero.

    Args:
        autoencoder: Any dictionary; a direction d of a linear one counts as the form ddᵀ.
        latent: Index of the latent.

    Returns:
        Eigenvalues by |λ| descending and eigenvectors (d, r) as columns, where r is the rank of W_i.

    Example:
        >>> eigenvalues, eigenvectors = geometry.spectrum(ae, 3)
        >>> bool((eigenvalues.abs().diff() <= 0).all())  # the largest first
        True
    """
    return latent_form(autoencoder, latent).eigenpairs()


def spectra(autoencoder: Autoencoder) -> Iterator[SpectrumBatch]:
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


def all_eigenvalues(autoencoder: Autoencoder) -> Float[Tensor, "k r"]:
    """The eigenvalues of every latent by |λ| descending, padded with zeros to the longest row.

    Args:
        autoencoder: Any dictionary.

    Returns:
        One row per latent.

    Example:
        >>> len(geometry.all_eigenvalues(ae)) == ae.n_latents
        True
    """
    found = []
    for latents, left, right, weights in term_batches(autoencoder):
        found.append((latents.cpu(), eigenvalues(left, right, weights).cpu()))
    return padded_table(found, autoencoder.n_latents)


def padded_table(rows: list[tuple[Tensor, Tensor]], n_latents: int) -> Float[Tensor, "k r"]:
    """Eigenvalues of batches of latents as one table, padded with zeros to the longest row."""
    table = torch.zeros(n_latents, max(values.shape[1] for _, values in rows), dtype=torch.float64)
    for latents, values in rows:
        table[latents, : values.shape[1]] = values
    return table
