"""Which latents of two dictionaries of a site are counterparts, from weights alone."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.kernels import cross_kernel, direction_overlaps, squared_norm
from quadric.geometry.similarity import (
    HungarianSimilarity,
    assignment,
    comparable,
    frobenius_from_norms,
    frobenius_similarity,
    hungarian_from_kernels,
    random_forms,
)
from quadric.model import Dictionary
from quadric.model.forms import Directions
from quadric.viewer.schema import NOTHING, ComparisonEntry, SiteComparison

SMALLEST_OVERLAP = 0.5
"""|cosine| of two matched forms below which a latent has no counterpart, unless chance reaches higher."""
CHANCE_QUANTILE = 0.99
METHOD = (
    "one-to-one assignment of latents that maximizes the sum of |⟨W, W'⟩|, as quadric compare makes it; overlap is "
    "|cosine| of the two forms, W and −W being the same latent; chance is the 99th percentile of the overlaps with a "
    "random initialization of the second dictionary"
)

METHOD_OF_DIRECTIONS = (
    "one-to-one assignment that maximizes the sum of overlaps; the overlap of a direction d with a form is the square "
    "root of the share of ‖W‖² in forms of d·v alone (its energy ddᵀ and its slope), that of two directions their "
    "cosine; chance is the 99th percentile of the overlaps with random directions; Sim_F takes directions as the forms "
    "ddᵀ on the token itself"
)


def comparable_pairs(dictionaries: Sequence[tuple[str, Dictionary]]) -> list[tuple[int, int]]:
    """Pairs of dictionaries that read the same vectors, by index."""
    return [
        (one, other)
        for one, other in combinations(range(len(dictionaries)), 2)
        if _are_comparable(dictionaries[one][1], dictionaries[other][1])
    ]


def _are_comparable(a: Dictionary, b: Dictionary) -> bool:
    places = ((a.provenance.model, b.provenance.model), (a.provenance.hook_point, b.provenance.hook_point))
    return a.d_model == b.d_model and all(mine == other for mine, other in places if mine and other)


def site_comparisons(
    dictionaries: Sequence[tuple[str, Dictionary]], on_progress: Progress = no_progress
) -> list[SiteComparison]:
    """Compare every pair of the named dictionaries that read the same vectors."""
    found, pairs = [], comparable_pairs(dictionaries)
    for one, other in pairs:
        found.append(compare_dictionaries(*dictionaries[one], *dictionaries[other]))
        on_progress("comparisons", len(found), len(pairs), "")
    return found


@torch.no_grad()
def compare_dictionaries(first_name: str, first: Dictionary, second_name: str, second: Dictionary) -> SiteComparison:
    """The counterpart of every latent of the first dictionary in the second, and the agreement of the two."""
    linear = first.is_linear or second.is_linear
    found = _matched_directions(first, second) if linear else _matched_forms(first, second)
    partners = np.full(first.n_latents, NOTHING, dtype=np.int32)
    overlaps = np.zeros(first.n_latents, dtype=np.float32)
    partners[found.latents.cpu().numpy()] = found.partners.cpu().numpy()
    overlaps[found.latents.cpu().numpy()] = found.overlaps
    entry = ComparisonEntry(
        first=first_name,
        second=second_name,
        frobenius=found.frobenius,
        alignment=found.alignment,
        smallest_overlap=max(SMALLEST_OVERLAP, found.chance),
        chance=found.chance,
        method=METHOD_OF_DIRECTIONS if linear else METHOD,
    )
    return SiteComparison(entry=entry, partners=partners, overlaps=overlaps)


class _Matched(NamedTuple):
    latents: Tensor
    partners: Tensor
    overlaps: np.ndarray
    frobenius: float
    alignment: float
    chance: float


def _matched_forms(first: Dictionary, second: Dictionary) -> _Matched:
    mine, other = comparable(first, second)
    kernel, other_kernel, cross = cross_kernel(mine, mine), cross_kernel(other, other), cross_kernel(mine, other)
    found = hungarian_from_kernels(cross, kernel, other_kernel, sign_free=True)
    random = random_forms(other, NULL_SEED)
    null = hungarian_from_kernels(cross_kernel(mine, random), kernel, cross_kernel(random, random), sign_free=True)
    return _Matched(
        latents=found.latents,
        partners=found.partners,
        overlaps=_overlaps(found),
        frobenius=frobenius_from_norms(squared_norm(cross), squared_norm(kernel), squared_norm(other_kernel)),
        alignment=found.alignment,
        chance=_high(_overlaps(null)),
    )


def _matched_directions(first: Dictionary, second: Dictionary) -> _Matched:
    """The same where one of them, or both, are linear."""
    mine, other = first.forms(), second.forms()
    if isinstance(mine, Directions):
        cross = direction_overlaps(mine.writes, second)
        null = direction_overlaps(_random_directions(first), second)
    else:
        assert isinstance(other, Directions)
        cross = direction_overlaps(other.writes, first).mT
        null = direction_overlaps(_random_directions(second), first).mT
    latents, partners = assignment(cross)
    chosen = cross[latents, partners]
    return _Matched(
        latents=latents,
        partners=partners,
        overlaps=np.asarray(chosen.float().cpu().numpy()),
        frobenius=frobenius_similarity(first, second),
        alignment=float(chosen.sum()) / (first.n_latents * second.n_latents) ** 0.5,
        chance=_high(null[assignment(null)].cpu().numpy()),
    )


def _random_directions(autoencoder: Dictionary) -> Tensor:
    generator = torch.Generator().manual_seed(NULL_SEED)
    return torch.randn(autoencoder.n_latents, autoencoder.d_model, generator=generator)


def _high(overlaps: np.ndarray) -> float:
    """What chance reaches."""
    return float(np.quantile(overlaps, CHANCE_QUANTILE)) if len(overlaps) else 0.0


def _overlaps(found: HungarianSimilarity) -> np.ndarray:
    # Rounding may take the cosine of equal forms beyond 1.
    return np.asarray(found.cosines.abs().clamp(max=1).float().cpu().numpy())
