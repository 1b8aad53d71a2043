"""The atoms that make up each latent of an autoencoder, in batches of latents of equal support."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.model import Dictionary
from quadric.model.devices import exact_device
from quadric.model.forms import Directions, Forms, forms_of
from quadric.model.mixing import Entries

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


def forms_or_directions(latents: Dictionary | Forms) -> Forms | Directions | None:
    """What a dictionary's latents are; forms are themselves."""
    return latents if isinstance(latents, Forms) else latents.forms()


def require_forms(latents: Dictionary | Forms) -> Forms:
    """The quadratic forms of a dictionary, where float64 is; an error for one that has none."""
    forms = forms_or_directions(latents)
    if isinstance(forms, Forms):
        return forms.to(exact_device(forms.left.device))
    has = "directions, not quadratic forms" if forms is not None else "neither quadratic forms nor directions"
    kind = latents.kind if isinstance(latents, Dictionary) else type(latents).__name__
    raise ValueError(f"the latents of a '{kind}' are {has}; this needs forms() of a bilinear dictionary")


def check_forms(dictionary: Dictionary) -> Dictionary:
    """The dictionary itself, if its latents are quadratic forms."""
    require_forms(dictionary)
    return dictionary


@torch.no_grad()
def as_forms(latents: Dictionary | Forms) -> Forms:
    """Any dictionary as quadratic forms on the token: a bilinear one as it is, a direction d as the rank-1 form ddᵀ.

    ddᵀ is the energy along d. Functions of whole forms use it: spectra, inner products, similarity. Where latents are
    read about the centre of the tokens, a direction is affine instead, see `quadric.geometry.centring`.
    """
    forms = forms_or_directions(latents)
    return require_forms(forms_of(forms.writes.detach()) if isinstance(forms, Directions) else latents)


@torch.no_grad()
def support(autoencoder: Dictionary | Forms) -> Int[Tensor, " k"]:
    """Number of atoms that feed into each latent: |{j : C_ij ≠ 0}|; one where latents are directions."""
    forms = as_forms(autoencoder)
    return torch.bincount(_entries(forms).rows, minlength=forms.n_latents)


@torch.no_grad()
def term_batches(
    autoencoder: Dictionary | Forms, factors: tuple[Float[Tensor, "h w"], Float[Tensor, "h w"]] | None = None
) -> Iterator[Terms]:
    """All latents in batches of equal support, each of which can be decomposed at once; ordered by support.

    `factors` are the atoms' L and R in other coordinates than the lens's.
    """
    forms = as_forms(autoencoder)
    left, right = _lens_factors(forms) if factors is None else factors
    if forms.mixing.is_dense:
        yield from _dense_batches(left, right, forms.mixing.matrix().detach())
    else:
        yield from _sparse_batches(left, right, forms)


def is_costly(forms: Forms) -> bool:
    """Whether decomposing all latents in double precision takes too long."""
    return forms.mixing.is_dense and forms.n_hidden * forms.d_model**2 > CHEAP_IN_DOUBLE


def _lens_factors(forms: Forms) -> tuple[Tensor, Tensor]:
    left = forms.left.detach().to(torch.float32 if is_costly(forms) else torch.float64)
    return left, left if forms.same_factors else forms.right.detach().to(left)


def _dense_batches(left: Tensor, right: Tensor, mixing: Tensor) -> Iterator[Terms]:
    size = max(1, BATCH_NUMBERS // left.numel())
    for latents in torch.split(torch.arange(len(mixing), device=mixing.device), size):
        # expand: every latent uses all atoms, so no copies are needed
        shape = (len(latents), *left.shape)
        yield Terms(latents, left.expand(shape), right.expand(shape), mixing[latents].to(left))


def _sparse_batches(left: Tensor, right: Tensor, forms: Forms) -> Iterator[Terms]:
    rows, atoms, weights = _entries(forms)
    counts = torch.bincount(rows, minlength=forms.n_latents)
    starts = counts.cumsum(0) - counts
    for count in sorted(set(counts.tolist())):
        size = max(1, BATCH_NUMBERS // (2 * max(1, count) * left.shape[1]))
        for latents in torch.split((counts == count).nonzero()[:, 0], size):
            places = starts[latents, None] + torch.arange(count, device=starts.device)
            chosen = atoms[places]
            factors = left[chosen]
            yield Terms(latents, factors, factors if right is left else right[chosen], weights[places])


def _entries(forms: Forms) -> Entries:
    """The entries of C that differ from zero; one inside a mask may still be zero."""
    rows, atoms, weights = (each.to(forms.left.device) for each in forms.mixing.entries())
    kept = weights != 0
    return Entries(rows[kept], atoms[kept], weights[kept].double())
