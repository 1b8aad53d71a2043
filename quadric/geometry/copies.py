"""Latents that add nothing to a dictionary: empty ones, and copies of others; from weights alone."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric.geometry.kernels import cross_kernel
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.fast.lifted import form_norms, packed_forms
from quadric.model.linear import LinearAutoencoder
from quadric.model.products import slices

COPY = 0.95
"""|cosine| between two forms above which the later one counts as a copy; the sign of a form is free."""
EMPTY = 1e-6
"""A form is empty if its norm is below this share of the median form's."""
NO_COPY = -1
FORMS_AT_ONCE = 4096
"""Forms in the product space that are compared at once with as many others."""


class Redundancy(NamedTuple):
    """Which latents of a dictionary are empty and which are copies."""

    empty: Bool[Tensor, " k"]
    copy_of: Int[Tensor, " k"]
    """The first earlier latent, no copy itself, to which this one is nearly equal up to sign and scale; −1 if none."""

    @property
    def copy(self) -> Bool[Tensor, " k"]:
        """Which latents are copies."""
        return self.copy_of != NO_COPY

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
        Which latents are empty, which are copies, and of which.

    Example:
        >>> geometry.redundancy(ae).n_distinct
        24
    """
    if isinstance(autoencoder, BilinearAutoencoder) and not autoencoder.settings.has_kernel:
        return _redundancy_by_forms(autoencoder, threshold)
    kernel = form_kernel(autoencoder)
    norms = kernel.diagonal().clamp(min=0).sqrt()
    empty = _empty(norms)
    scale = torch.where(empty, 1, norms)
    near = (kernel / scale[:, None] / scale).abs_() > threshold
    near &= ~empty[:, None] & ~empty
    return Redundancy(empty.cpu(), _originals(near.cpu()))


def _empty(norms: Float[Tensor, " k"]) -> Bool[Tensor, " k"]:
    alive = norms[norms > 0]
    return norms <= EMPTY * (alive.median() if len(alive) else 1.0)


def _redundancy_by_forms(autoencoder: BilinearAutoencoder, threshold: float) -> Redundancy:
    """Like `redundancy`, from forms in the product space, a block of latents at a time: no k×k matrix is held.

    Every latent is compared with the earlier ones that are no copies, in k²p FLOPs for k latents.
    """
    left, right = autoencoder.left.detach(), autoencoder.right.detach()
    rows = autoencoder.mixing.sparse_rows(left)
    assert rows is not None
    used = autoencoder.mixing.used_atoms
    left, right = (left, right) if used is None else (left[used], right[used])
    norms = form_norms(left, right, rows)
    empty = _empty(norms)
    found = torch.full((autoencoder.n_latents,), NO_COPY, device=left.device)

    def unit_forms(latents: Tensor) -> Tensor:
        return packed_forms(latents, left, right, rows) / norms[latents, None]

    alive = (~empty).nonzero()[:, 0]
    for part in slices(len(alive), FORMS_AT_ONCE):
        block = alive[part]
        own = unit_forms(block)
        originals = ((found == NO_COPY) & ~empty)[: block[0]].nonzero()[:, 0]
        for some in slices(len(originals), FORMS_AT_ONCE):
            earlier = originals[some]
            near = (own @ unit_forms(earlier).mT).abs_() > threshold
            first = earlier[near.int().argmax(1)]
            found[block] = torch.where((found[block] == NO_COPY) & near.any(1), first, found[block])
        # Among the latents of the block itself, one after the other: those found above are no originals.
        left_over = block[found[block] == NO_COPY]
        kept = own[found[block] == NO_COPY]
        inside = _originals(((kept @ kept.mT).abs_() > threshold).cpu()).to(left.device)
        found[left_over] = torch.where(inside == NO_COPY, NO_COPY, left_over[inside])
    return Redundancy(empty.cpu(), found.cpu())


def form_kernel(autoencoder: Autoencoder) -> Float[Tensor, "k k"]:
    """⟨W_i, W_j⟩ of all latents, symmetrized as data sees them; (d_i·d_j)² where they are directions."""
    if isinstance(autoencoder, BilinearAutoencoder):
        return cross_kernel(autoencoder, autoencoder)
    assert isinstance(autoencoder, LinearAutoencoder)
    decoder = autoencoder.decoder.detach().float()
    return (decoder @ decoder.mT).square()


def _originals(near: Bool[Tensor, "k k"]) -> Int[Tensor, " k"]:
    """In the order of the latents, the first earlier one that is near and was kept."""
    found = torch.full((len(near),), NO_COPY)
    kept = torch.zeros(len(near), dtype=torch.bool)
    for latent in range(len(near)):
        earlier = near[latent, :latent] & kept[:latent]
        if bool(earlier.any()):
            found[latent] = int(earlier.int().argmax())
        else:
            kept[latent] = True
    return found
