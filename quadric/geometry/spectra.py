"""The eigenvalues and eigenvectors of every latent, from weights alone."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.geometry.dictionary import Progress, no_progress, require_bilinear, term_batches
from quadric.geometry.eigenpairs import Eigenpairs, eigenpairs, eigenvalues
from quadric.geometry.forms import latent_form


class SpectrumBatch(NamedTuple):
    """The eigenpairs of some latents, by |λ| descending; those beyond a latent's rank have λ = 0."""

    latents: Int[Tensor, " b"]
    eigenvalues: Float[Tensor, "b r"]
    eigenvectors: Float[Tensor, "b d r"]


def spectrum(autoencoder: Autoencoder, latent: int) -> Eigenpairs:
    """Eigenvalues of W_i by |λ| descending and eigenvectors (d, r), where r is the rank of W_i.

    W_i = U diag(λ) Uᵀ to float64 rounding; whatever falls below that rounding counts as zero.
    """
    return latent_form(autoencoder, latent).eigenpairs()


def spectra(autoencoder: Autoencoder) -> Iterator[SpectrumBatch]:
    """The eigenpairs of all latents, batch by batch, since the eigenvectors of all rarely fit into memory."""
    for latents, left, right, weights in term_batches(autoencoder):
        yield SpectrumBatch(latents, *eigenpairs(left, right, weights))


def all_eigenvalues(autoencoder: Autoencoder, on_progress: Progress = no_progress) -> Float[Tensor, "k r"]:
    """The eigenvalues of every latent by |λ| descending, filled up with zeros to the longest row."""
    found = []
    for latents, left, right, weights in term_batches(autoencoder):
        found.append((latents, eigenvalues(left, right, weights)))
        on_progress(len(latents))
    n_latents = require_bilinear(autoencoder).n_latents
    table = torch.zeros(n_latents, max(values.shape[1] for _, values in found), dtype=torch.float64)
    for latents, values in found:
        table[latents.cpu(), : values.shape[1]] = values.cpu()
    return table
