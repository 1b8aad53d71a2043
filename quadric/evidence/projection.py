"""The axes on which kept tokens are projected: each latent's leading eigenvectors, and one random frame for all."""

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from quadric.autoencoders import BilinearAutoencoder
from quadric.geometry.spectra import spectra

Array = np.ndarray

CONTROL_AXES = 3
DENSE_SHARE = 0.25
"""Share of all (latent, token) pairs above which projecting every token costs less than gathering the wanted ones."""


@torch.no_grad()
def leading_axes(autoencoder: BilinearAutoencoder, n_axes: int) -> Float[Tensor, "k d a"]:
    """The leading eigenvectors of every latent by |λ|, zero beyond its rank.

    An eigenvector's sign is free; here its largest entry is positive, so that the same weights give the same picture.
    """
    axes = torch.zeros(autoencoder.n_latents, autoencoder.d_model, n_axes)
    for latents, values, vectors in spectra(autoencoder):
        leading = vectors[..., :n_axes] * (values[:, None, :n_axes] != 0)
        largest = leading.abs().argmax(dim=1, keepdim=True)
        signs = torch.where(leading.gather(1, largest) < 0, -1, 1)
        axes[latents.cpu(), :, : leading.shape[-1]] = (leading * signs).float().cpu()
    return axes


def control_frame(d_model: int, seed: int) -> Float[Tensor, "d c"]:
    """Three random orthonormal directions (fewer where the width is smaller, filled with zeros)."""
    generator = torch.Generator().manual_seed(seed)
    frame = torch.linalg.qr(torch.randn(d_model, min(CONTROL_AXES, d_model), generator=generator)).Q
    return torch.nn.functional.pad(frame, (0, CONTROL_AXES - frame.shape[1]))


def project(
    tokens: Float[Tensor, "n d"],
    axes: Float[Tensor, "b d a"],
    latents: Int64[Array, " c"],
    chosen: Int64[Array, " c"],
) -> Float32[Array, "c a"]:
    """x·v of chosen pairs of a latent (a row of `axes`, in ascending order) and a token."""
    if len(latents) >= DENSE_SHARE * len(axes) * len(tokens):
        every = torch.einsum("nd,bda->bna", tokens, axes)
        return np.asarray(every[latents, chosen].numpy())
    # One small product a latent: a batched one over all of them takes several times as long.
    ends = np.searchsorted(latents, np.arange(len(axes) + 1))
    rows = torch.from_numpy(chosen)
    projected = torch.empty(len(latents), axes.shape[2])
    for latent in np.flatnonzero(np.diff(ends)).tolist():
        own = slice(ends[latent], ends[latent + 1])
        torch.mm(tokens.index_select(0, rows[own]), axes[latent], out=projected[own])
    return np.asarray(projected.numpy())


def places_within(counts: Int64[Array, " b"]) -> Int64[Array, " c"]:
    """0, 1, … in each of consecutive groups of the given sizes."""
    starts = counts.cumsum() - counts
    return np.asarray(np.arange(counts.sum()) - starts.repeat(counts))
