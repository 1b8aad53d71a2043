"""The atoms that make up each latent of an autoencoder, in batches of latents of equal support."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.linear import LinearAutoencoder
from quadric.model.mixing import Composite, Dense

BATCH_NUMBERS = 4_000_000
"""Numbers in the factors of one batch (32 MB in float64): large enough to be fast, small enough for any machine."""

CHEAP_IN_DOUBLE = 2**30
"""Largest number of multiplications, h·d², for which a quadratic latent is added up in float64. Beyond, float32 is four
times as fast and changes eigenvalues by about 1e-6 of the largest."""


class Terms(NamedTuple):
    """Latents with equally many terms: W_i = Σ_j weights_ij ½(l_ij r_ijᵀ + r_ij l_ijᵀ)."""

    latents: Int[Tensor, " b"]
    left: Float[Tensor, "b m d"]
    right: Float[Tensor, "b m d"]
    weights: Float[Tensor, "b m"]


def require_bilinear(autoencoder: Autoencoder) -> BilinearAutoencoder:
    """Return the autoencoder if its latents are quadratic forms, else raise."""
    if not isinstance(autoencoder, BilinearAutoencoder):
        raise ValueError(
            f"a '{getattr(autoencoder, 'kind', type(autoencoder).__name__)}' autoencoder has directions, not quadratic "
            "forms; this needs a bilinear one (prior 'atomic', 'composite' or 'quadratic')"
        )
    return autoencoder


@torch.no_grad()
def as_forms(autoencoder: Autoencoder) -> BilinearAutoencoder:
    """Any dictionary as quadratic forms on the token: a bilinear one as it is, a direction d as the rank-1 form ddᵀ.

    ddᵀ is the energy along d. Functions of whole forms use it: spectra, inner products, similarity. Where latents are
    read about the centre of the tokens, a direction is affine instead, see `quadric.geometry.directions`.

    Args:
        autoencoder: Any dictionary.

    Returns:
        A dictionary for geometry only; of a linear one, it encodes (d·x)² and shares no gradients.

    Example:
        >>> topk = quadric.TopKAutoencoder(d_model=8, n_latents=16, n_active=4)
        >>> as_forms(topk).form(3).shape
        torch.Size([8, 8])
    """
    if not isinstance(autoencoder, LinearAutoencoder):
        return require_bilinear(autoencoder)
    decoder = autoencoder.decoder.detach()
    return BilinearAutoencoder(
        d_model=autoencoder.d_model,
        n_latents=autoencoder.n_latents,
        prior="atomic",
        tied=True,
        provenance=autoencoder.provenance,
        device=decoder.device,
        dtype=decoder.dtype,
        tensors={"left": decoder, "offset": decoder.new_zeros(autoencoder.n_latents)},
    )


@torch.no_grad()
def support(autoencoder: Autoencoder) -> Int[Tensor, " k"]:
    """Number of atoms that feed into each latent: |{j : C_ij ≠ 0}|; one where latents are directions."""
    bilinear = as_forms(autoencoder)
    if isinstance(bilinear.mixing, Dense):
        return bilinear.mixing.weight.count_nonzero(dim=1)
    return torch.bincount(_entries(bilinear).rows, minlength=bilinear.n_latents)


@torch.no_grad()
def term_batches(
    autoencoder: Autoencoder, factors: tuple[Float[Tensor, "h w"], Float[Tensor, "h w"]] | None = None
) -> Iterator[Terms]:
    """All latents in batches of equal support, each of which can be decomposed at once; ordered by support.

    `factors` are the atoms' L and R in other coordinates than the lens's.
    """
    bilinear = as_forms(autoencoder)
    left, right = _lens_factors(bilinear) if factors is None else factors
    if isinstance(bilinear.mixing, Dense):
        yield from _dense_batches(left, right, bilinear.mixing.weight.detach())
    else:
        yield from _sparse_batches(left, right, bilinear)


def _lens_factors(bilinear: BilinearAutoencoder) -> tuple[Tensor, Tensor]:
    quadratic = isinstance(bilinear.mixing, Dense)
    costly = quadratic and bilinear.n_hidden * bilinear.d_model**2 > CHEAP_IN_DOUBLE
    left = bilinear.left.detach().to(torch.float32 if costly else torch.float64)
    return left, left if bilinear.tied else bilinear.right.detach().to(left)


def _dense_batches(left: Tensor, right: Tensor, mixing: Tensor) -> Iterator[Terms]:
    size = max(1, BATCH_NUMBERS // left.numel())
    for latents in torch.split(torch.arange(len(mixing), device=mixing.device), size):
        # expand: every latent uses all atoms, so no copies are needed
        shape = (len(latents), *left.shape)
        yield Terms(latents, left.expand(shape), right.expand(shape), mixing[latents].to(left))


def _sparse_batches(left: Tensor, right: Tensor, autoencoder: BilinearAutoencoder) -> Iterator[Terms]:
    rows, atoms, weights = _entries(autoencoder)
    counts = torch.bincount(rows, minlength=autoencoder.n_latents)
    starts = counts.cumsum(0) - counts
    for count in sorted(set(counts.tolist())):
        size = max(1, BATCH_NUMBERS // (2 * max(1, count) * left.shape[1]))
        for latents in torch.split((counts == count).nonzero()[:, 0], size):
            places = starts[latents, None] + torch.arange(count, device=starts.device)
            chosen = atoms[places]
            factors = left[chosen]
            yield Terms(latents, factors, factors if right is left else right[chosen], weights[places])


class Entries(NamedTuple):
    """The entries of C that differ from zero, by row."""

    rows: Int[Tensor, " nnz"]
    atoms: Int[Tensor, " nnz"]
    weights: Float[Tensor, " nnz"]


def _entries(autoencoder: BilinearAutoencoder) -> Entries:
    if not isinstance(autoencoder.mixing, Composite):
        every = torch.arange(autoencoder.n_latents, device=autoencoder.left.device)
        return Entries(every, every, torch.ones_like(every, dtype=torch.float64))
    rows, atoms, weights = autoencoder.mixing.entries()
    kept = weights != 0  # an entry inside the mask may still be zero
    return Entries(rows[kept], atoms[kept], weights[kept].double())
