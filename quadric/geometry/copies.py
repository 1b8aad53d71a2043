"""Latents that add nothing to a dictionary: empty ones, and copies of others; from weights alone."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.autoencoders.topk import LinearAutoencoder

COPY = 0.95
"""|cosine| between two forms above which the later one counts as a copy; the sign of a form is free."""
EMPTY = 1e-6
"""A form is empty if its norm is below this share of the median form's."""


class Redundancy(NamedTuple):
    """Which latents of a dictionary are empty and which are copies."""

    empty: Bool[Tensor, " k"]
    copy: Bool[Tensor, " k"]
    """Nearly equal, up to sign and scale, to an earlier latent that is no copy itself."""

    @property
    def n_distinct(self) -> int:
        """Latents that are neither."""
        return int((~self.empty & ~self.copy).sum())

    def __repr__(self) -> str:
        return (
            f"Redundancy({len(self.empty)} latents: {int(self.empty.sum())} empty, {int(self.copy.sum())} copies, "
            f"{self.n_distinct} distinct)"
        )


@torch.no_grad()
def redundancy(autoencoder: Autoencoder, threshold: float = COPY) -> Redundancy:
    """Find empty and copied latents by the inner products of their forms.

    Args:
        autoencoder: Any dictionary; a direction d of a linear one counts as the form ddᵀ.
        threshold: |cosine| above which a latent counts as a copy.

    Returns:
        Which latents are empty and which are copies.

    Example:
        ```python
        import quadric

        ae = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        print(quadric.geometry.redundancy(ae))
        ```
    """
    kernel = form_kernel(autoencoder)
    norms = kernel.diagonal().clamp(min=0).sqrt()
    alive = norms[norms > 0]
    empty = norms <= EMPTY * (alive.median() if len(alive) else 1.0)
    scale = torch.where(empty, 1, norms)
    near = (kernel / scale[:, None] / scale).abs_() > threshold
    near &= ~empty[:, None] & ~empty
    return Redundancy(empty.cpu(), _later_copies(near.cpu()))


def form_kernel(autoencoder: Autoencoder) -> Float[Tensor, "k k"]:
    """⟨W_i, W_j⟩ of all latents; (d_i·d_j)² where they are directions."""
    if isinstance(autoencoder, BilinearAutoencoder):
        return autoencoder.kernel()
    assert isinstance(autoencoder, LinearAutoencoder)
    decoder = autoencoder.decoder.detach().float()
    return (decoder @ decoder.mT).square()


def _later_copies(near: Bool[Tensor, "k k"]) -> Bool[Tensor, " k"]:
    """In the order of the latents, each that is near an earlier one which was kept."""
    kept = torch.zeros(len(near), dtype=torch.bool)
    for latent in range(len(near)):
        kept[latent] = not bool((near[latent, :latent] & kept[:latent]).any())
    return ~kept
