"""All latents of a dictionary, each decomposed once: every eigenvalue, and the leading eigenvectors.

Everything else that geometry reports about a whole dictionary follows from these tensors. All eigenvectors rarely fit
into memory, so a fixed number per latent is kept: 8 in float32 take 270 MB at k = 8,192 and d = 1,024.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.autoencoders.io import weights_sha256
from quadric.geometry.dictionary import Progress, no_progress, require_bilinear, support
from quadric.geometry.spectra import padded_table, spectra

KEPT_VECTORS = 8
"""Leading eigenvectors kept per latent; by default neighbours and evidence use as many."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Decomposition:
    """Eigenvalues and leading eigenvectors of every latent of one dictionary."""

    weights_sha256: str
    """Hash of the weights that were decomposed, see `quadric.autoencoders.io.weights_sha256`."""
    eigenvalues: Float[Tensor, "k r"]
    """All eigenvalues by |λ| descending, padded with zeros; float64."""
    support: Int[Tensor, " k"]
    """Number of atoms that feed into each latent."""
    eigenvectors: Float32[Tensor, "k d v"]
    """The leading eigenvectors as columns, zero beyond a latent's rank. The sign of an eigenvector is arbitrary; here
    its largest entry is positive, so that the same weights give the same vectors."""

    @property
    def n_latents(self) -> int:
        return len(self.eigenvalues)

    def __repr__(self) -> str:
        k, d, kept = self.eigenvectors.shape
        return (
            f"{type(self).__name__}({k:,} latents, d_model={d}, {self.eigenvalues.shape[1]} eigenvalues and "
            f"{kept} eigenvectors per latent, weights {self.weights_sha256[:12]})"
        )

    def check_weights(self, autoencoder: Autoencoder) -> None:
        """Raise if this decomposition belongs to other weights."""
        if self.weights_sha256 != weights_sha256(autoencoder):
            raise ValueError(
                f"the geometry is that of other weights ({self.weights_sha256[:12]}); "
                "compute it again with quadric.geometry.dictionary_geometry(autoencoder)"
            )

    def leading(self, count: int) -> Float32[Tensor, "k d count"] | None:
        """The `count` leading eigenvectors of every latent, zero beyond its rank; None if fewer were kept."""
        _, d_model, kept = self.eigenvectors.shape
        if min(count, d_model) > kept:
            return None
        return torch.nn.functional.pad(self.eigenvectors[..., :count], (0, max(0, count - kept)))


@torch.no_grad()
def decompose(
    autoencoder: Autoencoder, n_vectors: int = KEPT_VECTORS, on_progress: Progress = no_progress
) -> Decomposition:
    """Decompose every latent once.

    Args:
        autoencoder: A bilinear autoencoder.
        n_vectors: Leading eigenvectors to keep per latent.
        on_progress: Called with the number of latents finished since its last call.

    Returns:
        The eigenvalues of all latents and their leading eigenvectors, on the CPU.
    """
    bilinear = require_bilinear(autoencoder)
    found = []
    vectors = torch.zeros(bilinear.n_latents, bilinear.d_model, n_vectors)
    for latents, values, directions in spectra(bilinear):
        found.append((latents.cpu(), values.cpu()))
        leading = _with_fixed_signs(directions[..., :n_vectors] * (values[:, None, :n_vectors] != 0))
        vectors[latents.cpu(), :, : leading.shape[-1]] = leading.float().cpu()
        on_progress(len(latents))
    return Decomposition(
        weights_sha256=weights_sha256(bilinear),
        eigenvalues=padded_table(found, bilinear.n_latents),
        support=support(bilinear).cpu(),
        eigenvectors=vectors,
    )


def leading_axes(
    autoencoder: Autoencoder, n_axes: int, geometry: Decomposition | None = None
) -> Float32[Tensor, "k d a"]:
    """The leading eigenvectors of every latent by |λ|, zero beyond its rank; the largest entry of each is positive.

    Args:
        autoencoder: A bilinear autoencoder.
        n_axes: Eigenvectors per latent.
        geometry: Its decomposition, if it was computed before; it is used if it holds enough eigenvectors.

    Returns:
        One column per eigenvector, (k, d, n_axes).
    """
    if geometry is not None:
        geometry.check_weights(autoencoder)
        if (known := geometry.leading(n_axes)) is not None:
            return known
    return decompose(autoencoder, n_axes).eigenvectors


def _with_fixed_signs(vectors: Float[Tensor, "b d v"]) -> Float[Tensor, "b d v"]:
    largest = vectors.abs().argmax(dim=1, keepdim=True)
    return vectors * torch.where(vectors.gather(1, largest) < 0, -1, 1)
