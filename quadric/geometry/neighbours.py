"""Which latents live in nearly the same subspace: all pairs compared, never k² eigenproblems."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.geometry.dictionary import Progress, no_progress, require_bilinear
from quadric.geometry.spectra import spectra
from quadric.geometry.statistics import effective_rank

DEFAULT_COUNT = 20
LARGEST_RANK = 8
BLOCK_COLUMNS = 2_048
"""Eigenvectors on each side of one block of inner products (16 MB in float32)."""


class Neighbours(NamedTuple):
    """The closest latents of every latent, closest first."""

    latents: Int[Tensor, "k count"]
    overlaps: Float[Tensor, "k count"]
    """‖U_iᵀU_j‖_F² / √(r_i r_j): 1 for the same subspace, 0 for orthogonal ones and for empty latents."""
    ranks: Int[Tensor, " k"]
    """r_i, the leading eigenvectors that stand for each latent."""


class _Bases(NamedTuple):
    """The leading eigenvectors of all latents that are stood for by equally many."""

    latents: Tensor
    vectors: Tensor  # (d, b·r): the r vectors of a latent side by side


def neighbours(
    autoencoder: Autoencoder,
    count: int = DEFAULT_COUNT,
    largest_rank: int = LARGEST_RANK,
    on_progress: Progress = no_progress,
) -> Neighbours:
    """The `count` latents with the largest subspace overlap ‖U_iᵀU_j‖_F² / √(r_i r_j) with each latent.

    U_i holds as many leading eigenvectors as the latent's effective rank, rounded, but at most `largest_rank`: the
    tail of a spectrum would make all latents of high rank look alike. `on_progress` hears of each latent twice, when
    its eigenvectors are known and when its neighbours are.
    """
    if count < 1 or largest_rank < 1:
        raise ValueError(f"count={count} and largest_rank={largest_rank} must both be at least 1")
    n_latents = require_bilinear(autoencoder).n_latents
    count = min(count, n_latents - 1)
    groups, ranks = _leading_bases(autoencoder, largest_rank, on_progress)
    latents = torch.zeros(n_latents, count, dtype=torch.int64)
    overlaps = torch.zeros(n_latents, count, dtype=torch.float32)
    for rows, block in _overlap_rows(groups, n_latents):
        block[torch.arange(len(rows)), rows] = -1  # no latent is its own neighbour
        found = block.topk(count, dim=1)
        latents[rows], overlaps[rows] = found.indices, found.values.clamp(min=0)
        on_progress(len(rows))
    return Neighbours(latents, overlaps, ranks)


def _leading_bases(
    autoencoder: Autoencoder, largest_rank: int, on_progress: Progress
) -> tuple[dict[int, _Bases], Tensor]:
    ranks = torch.zeros(require_bilinear(autoencoder).n_latents, dtype=torch.int64)
    found: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for latents, values, vectors in spectra(autoencoder):
        kept = effective_rank(values).round().long().clamp(max=largest_rank).cpu()
        ranks[latents.cpu()] = kept
        for rank in sorted(set(kept.tolist())):
            chosen = kept == rank
            leading = vectors[chosen.to(vectors.device), :, :rank].float().cpu()
            found.setdefault(rank, []).append((latents.cpu()[chosen], leading))
        on_progress(len(latents))
    return {rank: _joined(parts) for rank, parts in found.items()}, ranks


def _joined(parts: list[tuple[Tensor, Tensor]]) -> _Bases:
    vectors = torch.cat([vectors for _, vectors in parts])
    return _Bases(torch.cat([latents for latents, _ in parts]), vectors.transpose(0, 1).flatten(1).contiguous())


def _overlap_rows(groups: dict[int, _Bases], n_latents: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The overlaps of some latents with all latents, block by block of equal rank."""
    for rank, group in groups.items():
        size = max(1, BLOCK_COLUMNS // max(1, rank))
        for start in range(0, len(group.latents), size):
            rows = group.latents[start : start + size]
            block = torch.zeros(len(rows), n_latents)
            basis = group.vectors[:, start * rank : (start + len(rows)) * rank]
            for other_rank, other in groups.items():
                if rank and other_rank:
                    block[:, other.latents] = _overlaps(basis, rank, other, other_rank)
            yield rows, block


def _overlaps(basis: Tensor, rank: int, other: _Bases, other_rank: int) -> Tensor:
    size = max(1, BLOCK_COLUMNS // other_rank) * other_rank
    blocks = []
    for columns in torch.split(other.vectors, size, dim=1):
        squares = (basis.mT @ columns).square_()
        blocks.append(squares.view(-1, rank, columns.shape[1] // other_rank, other_rank).sum((1, 3)))
    return torch.cat(blocks, dim=1) / math.sqrt(rank * other_rank)
