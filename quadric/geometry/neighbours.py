"""Latents that live in nearly the same subspace: all pairs are compared, without an eigenproblem per pair.

The subspace of a latent is spanned by the leading eigenvectors of its quadratic part Q, as many as the effective rank
of Q, rounded, but at most 8, and by the direction along which its level sets open. A half-space has that direction
alone.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress, part_of
from quadric.geometry.centring import CentreLike
from quadric.geometry.decomposition import NO_AXIS, Decomposition, decompose
from quadric.geometry.shapes import HALF_SPACE
from quadric.geometry.statistics import effective_rank
from quadric.model import Autoencoder

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
    """r_i, the number of axes that represent each latent."""

    def __repr__(self) -> str:
        n_latents, count = self.latents.shape
        closest_overlap = f", median closest overlap {self.overlaps[:, 0].median():.3f}" if count else ""
        return f"Neighbours({count} of each of {n_latents:,} latents{closest_overlap})"


class _Bases(NamedTuple):
    """The axes of all latents that are represented by the same number of them."""

    latents: Tensor
    vectors: Tensor  # (d, b·r): the r vectors of a latent side by side


def neighbours(
    autoencoder: Autoencoder,
    count: int = DEFAULT_COUNT,
    largest_rank: int = LARGEST_RANK,
    on_progress: Progress = no_progress,
    geometry: Decomposition | None = None,
    *,
    centre: CentreLike | None = None,
) -> Neighbours:
    """Find the `count` latents with the largest subspace overlap ‖U_iᵀU_j‖_F² / √(r_i r_j) with each latent.

    U_i holds as many leading eigenvectors of Q as its effective rank, rounded, and the direction along which the level
    sets open, but at most `largest_rank` in all: the tail of a spectrum would make all latents of high rank look alike.

    Args:
        autoencoder: Any dictionary.
        count: Neighbours per latent.
        largest_rank: The most axes that represent a latent.
        on_progress: Called as latents are decomposed, and again as their neighbours are found.
        geometry: The autoencoder's geometry, if it was computed before; it is used if it holds enough axes.
        centre: Of the unit tokens that a raw dictionary reads; the origin if left out. An affine lens has its own, and
            so does a geometry.

    Returns:
        The neighbours, closest first, with their overlaps.

    Example:
        >>> nearest = geometry.neighbours(ae, count=3)
        >>> nearest.latents.shape
        torch.Size([24, 3])
    """
    _check(count, largest_rank)
    if geometry is not None:
        geometry.check_weights(autoencoder)
    if geometry is None or geometry.leading(largest_rank) is None:
        half = part_of(on_progress, "geometry", 0, 2 * autoencoder.n_latents)
        geometry = decompose(autoencoder, largest_rank, half, centre=centre)
        on_progress = part_of(on_progress, "geometry", autoencoder.n_latents, 2 * autoencoder.n_latents)
    return closest(geometry, count, largest_rank, on_progress)


def closest(
    geometry: Decomposition,
    count: int = DEFAULT_COUNT,
    largest_rank: int = LARGEST_RANK,
    on_progress: Progress = no_progress,
) -> Neighbours:
    """The neighbours of every latent, from latents that are decomposed already."""
    _check(count, largest_rank)
    n_latents = geometry.n_latents
    count = min(count, n_latents - 1)
    ranks = subspace_ranks(geometry, largest_rank)
    groups = _bases_by_rank(geometry, ranks)
    latents = torch.zeros(n_latents, count, dtype=torch.int64)
    overlaps = torch.zeros(n_latents, count, dtype=torch.float32)
    done = 0
    for rows, block in _overlap_rows(groups, n_latents):
        block[torch.arange(len(rows)), rows] = -1  # a latent is not its own neighbour
        found = block.topk(count, dim=1)
        latents[rows], overlaps[rows] = found.indices, found.values.clamp(min=0)
        done += len(rows)
        on_progress("neighbours", done, n_latents, "")
    return Neighbours(latents, overlaps, ranks)


def subspace_ranks(geometry: Decomposition, largest_rank: int = LARGEST_RANK) -> Int[Tensor, " k"]:
    """Number of leading axes that represent each latent: they are ordered so that its subspace comes first."""
    found = geometry.readings
    ranks = effective_rank(geometry.eigenvalues).round().long()
    # The third axis of a paraboloid is the one along which it opens, so its first two eigenvectors come with it.
    ranks = torch.where(found.opens, torch.maximum(ranks, (found.positive + found.negative).clamp(max=2)) + 1, ranks)
    # Where it opens inside the span of its own eigenvectors, that axis replaces one of them.
    present = (geometry.axis_kind != NO_AXIS).sum(-1)
    return torch.where(found.shape == HALF_SPACE, 1, ranks).clamp(max=largest_rank).minimum(present)


def _check(count: int, largest_rank: int) -> None:
    if count < 1 or largest_rank < 1:
        raise ValueError(f"count={count} and largest_rank={largest_rank} must both be at least 1")


def _bases_by_rank(geometry: Decomposition, ranks: Int[Tensor, " k"]) -> dict[int, _Bases]:
    # In the order in which latents are decomposed: the order decides the last bits of the overlaps.
    order = geometry.support.argsort(stable=True)
    groups = {}
    for rank in sorted(set(ranks.tolist())):
        latents = order[ranks[order] == rank]
        vectors = geometry.axes[latents, :, :rank].transpose(0, 1).flatten(1).contiguous()
        groups[rank] = _Bases(latents, vectors)
    return groups


def _overlap_rows(groups: dict[int, _Bases], n_latents: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The overlaps of some latents with all latents, in blocks of equal rank."""
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
