"""Latents that are alike, from weights alone: copies of others, and neighbours that live in nearly the same subspace.

A latent is a copy if its form is that of an earlier one, up to sign and scale, as far as the inner product of the two
forms tells. Neighbours are compared by their subspaces, all pairs, without an eigenproblem per pair. The subspace of a
latent is spanned by the leading eigenvectors of its quadratic part Q, as many as the effective rank of Q, rounded, but
at most 8, and by the direction along which its level sets open. A half-space has that direction alone.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress, part_of
from quadric.geometry.axes import NO_AXIS
from quadric.geometry.centring import CentreLike
from quadric.geometry.decomposition import Decomposition, decompose
from quadric.geometry.dictionary import as_forms
from quadric.geometry.kernels import cross_kernel
from quadric.geometry.shapes import HALF_SPACE
from quadric.geometry.spectra import effective_rank
from quadric.model import Dictionary
from quadric.model.fast.lifted import form_norms, packed_forms
from quadric.model.fast.products import slices
from quadric.model.fast.step import sparse_rows_of
from quadric.model.forms import Forms
from quadric.model.settings import LARGEST_KERNEL

DEFAULT_COUNT = 20
LARGEST_RANK = 8
BLOCK_COLUMNS = 2_048
"""Eigenvectors on each side of one block of inner products (16 MB in float32)."""
COPY = 0.95
"""|cosine| between two forms above which the later one counts as a copy; the sign of a form is free."""
EMPTY = 1e-6
"""A form is empty if its norm is below this share of the median form's."""
NO_COPY = -1
FORMS_AT_ONCE = 4096
"""Forms in the product space that are compared at once with as many others."""


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
    autoencoder: Dictionary,
    count: int = DEFAULT_COUNT,
    on_progress: Progress = no_progress,
    geometry: Decomposition | None = None,
    *,
    centre: CentreLike | None = None,
) -> Neighbours:
    """Find the `count` latents with the largest subspace overlap ‖U_iᵀU_j‖_F² / √(r_i r_j) with each latent.

    U_i holds as many leading eigenvectors of Q as its effective rank, rounded, and the direction along which the level
    sets open, but at most 8 in all: the tail of a spectrum would make all latents of high rank look alike.

    Args:
        autoencoder: Any dictionary.
        count: Neighbours per latent.
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
    if count < 1:
        raise ValueError(f"count={count} is not positive; give how many neighbours each latent has")
    if geometry is not None:
        geometry.check_weights(autoencoder)
    if geometry is None or geometry.leading(LARGEST_RANK) is None:
        half = part_of(on_progress, "geometry", 0, 2 * autoencoder.n_latents)
        geometry = decompose(autoencoder, LARGEST_RANK, half, centre=centre)
        on_progress = part_of(on_progress, "geometry", autoencoder.n_latents, 2 * autoencoder.n_latents)
    return closest(geometry, count, on_progress)


def closest(geometry: Decomposition, count: int = DEFAULT_COUNT, on_progress: Progress = no_progress) -> Neighbours:
    """The neighbours of every latent, from latents that are decomposed already."""
    n_latents = geometry.n_latents
    count = min(count, n_latents - 1)
    ranks = subspace_ranks(geometry)
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


def subspace_ranks(geometry: Decomposition) -> Int[Tensor, " k"]:
    """Number of leading axes that represent each latent: they are ordered so that its subspace comes first."""
    found = geometry.readings
    ranks = effective_rank(geometry.eigenvalues).round().long()
    # The third axis of a paraboloid is the one along which it opens, so its first two eigenvectors come with it.
    ranks = torch.where(found.opens, torch.maximum(ranks, (found.positive + found.negative).clamp(max=2)) + 1, ranks)
    # Where it opens inside the span of its own eigenvectors, that axis replaces one of them.
    present = (geometry.axis_kind != NO_AXIS).sum(-1)
    return torch.where(found.shape == HALF_SPACE, 1, ranks).clamp(max=LARGEST_RANK).minimum(present)


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
def redundancy(autoencoder: Dictionary | Forms, threshold: float = COPY) -> Redundancy:
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
    forms = as_forms(autoencoder)
    if forms.n_hidden > LARGEST_KERNEL and not forms.mixing.is_dense:
        return _redundancy_by_forms(forms, threshold)
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


def _redundancy_by_forms(autoencoder: Forms, threshold: float) -> Redundancy:
    """Like `redundancy`, from forms in the product space, a block of latents at a time: no k×k matrix is held.

    Every latent is compared with the earlier ones that are no copies, in k²p FLOPs for k latents.
    """
    left, right = autoencoder.left.detach(), autoencoder.right.detach()
    rows = sparse_rows_of(autoencoder.mixing, left)
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


def form_kernel(autoencoder: Dictionary | Forms) -> Float[Tensor, "k k"]:
    """⟨W_i, W_j⟩ of all latents, symmetrized as data sees them; (d_i·d_j)² where they are directions."""
    forms = as_forms(autoencoder)
    if forms.same_factors and not forms.mixing.has_weights:
        writes = forms.left.detach().float()
        squares: Tensor = (writes @ writes.mT).square()
        return squares
    return cross_kernel(forms, forms)


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
