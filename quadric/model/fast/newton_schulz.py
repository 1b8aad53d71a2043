"""Muon's Newton–Schulz rounds, faster than on the matrix itself.

    X ← aX + b(XXᵀ)X + c(XXᵀ)²X

Every factor that multiplies X is a polynomial in XᵀX, and those commute, so `orthogonalized` iterates on the small Gram
matrix alone:

    A₀ = XᵀX,   P = aI + bA + cA²,   A ← PAP,   Q ← QP,   and at the end X Q.

That takes one pass over the tall matrix at each end instead of two in each of five rounds. It runs in float32, which
keeps rounding errors small: iterating on the Gram matrix squares its condition number.

`OnPattern` runs the same rounds on the entries of a sparse matrix and evaluates every product (XXᵀ)Y only where the
matrix has entries, which costs one multiplication per pair of entries that share a column instead of k³.
docs/decisions.md compares it, and element-wise rules, with Muon on the whole of C.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.model.fast.products import CsrPattern, row_blocks, symmetric_product
from quadric.model.fast.shared import Share, shared_product, shared_symmetric_product

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
TINY = 1e-7
MOST_PAIRS = 2**24
"""Largest number of pairs of entries for which `OnPattern` runs the rounds. Above it, in the first steps after C
became sparse at the largest sizes, rows are only scaled to norm one, which is what orthogonalization does to rows that
share no atoms."""
PAIRS_AT_ONCE = 2**18
"""Pairs that go through a round together: one mebibyte per operation in float32, which stays in the CPU cache."""

Multiply = Callable[[Tensor, Tensor], Tensor]
"""A product of two matrices that is known to be symmetric."""


def orthogonalized(matrix: Float[Tensor, "m n"], share: Share | None = None) -> Float[Tensor, "m n"]:
    """The matrix with its singular values moved close to 1: US'Vᵀ with S' ≈ 1 for USVᵀ.

    Args:
        matrix: USVᵀ.
        share: part of every product that this process computes, if several processes call this together with the same
            matrix; by default all of it.

    Returns:
        US'Vᵀ, the same bits on every process.
    """
    if matrix.shape[0] < matrix.shape[1]:
        return orthogonalized(matrix.mT, share).mT
    norm: Tensor = torch.linalg.matrix_norm(matrix)
    tall = matrix / norm.clamp(min=TINY)
    if share is None:
        return tall @ _factor_product(symmetric_product(tall.mT, tall), symmetric_product)
    multiply = partial(shared_symmetric_product, share=share)
    return shared_product(tall, _factor_product(multiply(tall.mT, tall), multiply), share)


def _factor_product(gram: Float[Tensor, "n n"], multiply: Multiply) -> Float[Tensor, "n n"]:
    """The product of the factors of all rounds. All matrices here are polynomials in the first one, so the product of
    any two is symmetric."""
    product = factor = _factor(gram, multiply)
    for _ in range(ROUNDS - 1):
        gram = multiply(multiply(factor, gram), factor)
        factor = _factor(gram, multiply)
        product = multiply(product, factor)
    return product


def _factor(gram: Float[Tensor, "n n"], multiply: Multiply) -> Float[Tensor, "n n"]:
    """aI + bA + cA²."""
    a, b, c = COEFFICIENTS
    factor = multiply(gram, gram).mul_(c).add_(gram, alpha=b)
    factor.diagonal().add_(a)
    return factor


def is_shared(shape: tuple[int, ...]) -> bool:
    """Whether a matrix is large enough for several processes to orthogonalize it together.

    A product that one process computes in one block is not worth sharing. Computed in several blocks, it would also be
    rounded differently, which the rounds amplify: losses would be ten times further from one process's.
    """
    return len(row_blocks(min(shape))) > 1


class OnPattern:
    """The rounds on the entries of one sparse matrix, in row order."""

    def __init__(self, pattern: CsrPattern) -> None:
        self.pattern = pattern
        self.n_rounds = rounds_for(pattern)
        self.pairs = column_pairs(pattern) if count_pairs(pattern) <= MOST_PAIRS else None

    def __call__(self, values: Float[Tensor, " nnz"]) -> Float[Tensor, " nnz"]:
        if self.pairs is None:
            return rows_scaled(values, self.pattern)
        direction = orthogonalized_on_pattern(values[self.pattern.by_column], self.pairs, self.n_rounds)
        return direction[self.pattern.by_row]


class PairBlock(NamedTuple):
    """Consecutive columns, whose pairs go through a round together."""

    entries: slice
    pairs: slice
    repeated: slice
    """Which of the repeated pairs are theirs."""


class Pairs(NamedTuple):
    """Pairs of entries in the same column. Entries are numbered in column order; the rows of a pair determine a
    position of XXᵀ.

    Most positions off the diagonal have one pair in a large sparse matrix: its product is the entry of XXᵀ. Only
    positions that several columns share need a sum, and pairs of theirs are the repeated ones.
    """

    first: Int[Tensor, " pairs"]
    second: Int[Tensor, " pairs"]
    per_entry: Int[Tensor, " nnz"]
    """Number of pairs whose first entry is this one; pairs are stored in that order."""
    repeated: Int[Tensor, " repeated"]
    """Numbers of the pairs whose position has more than one, in order."""
    place: Int[Tensor, " repeated"]
    """Index of the pair's position among those that have more than one."""
    by_place: Int[Tensor, " repeated"]
    """The same pairs sorted by position."""
    per_place: Int[Tensor, " places"]
    blocks: tuple[PairBlock, ...]


def count_pairs(pattern: CsrPattern) -> int:
    """Number of pairs of entries in the same column."""
    return int(pattern.column_starts.diff().square().sum())


def column_pairs(pattern: CsrPattern) -> Pairs:
    """All pairs of entries in the same column, including each entry with itself."""
    per_column = pattern.column_starts.diff()
    per_entry = per_column.repeat_interleave(per_column)
    entries = torch.arange(len(per_entry), device=per_entry.device)
    first = entries.repeat_interleave(per_entry)
    column_start = pattern.column_starts[:-1].repeat_interleave(per_column)
    # Among the pairs of one first entry, the second runs through the column from its start.
    own_start = per_entry.cumsum(0) - per_entry
    second = torch.arange(len(first), device=first.device) + (column_start - own_start)[first]
    keys = pattern.rows_by_column[first] * pattern.shape[0] + pattern.rows_by_column[second]
    _, place, per_place = torch.unique(keys, return_inverse=True, return_counts=True)
    is_shared = per_place > 1
    repeated = is_shared[place].nonzero()[:, 0]
    place = (is_shared.cumsum(0) - 1)[place[repeated]]
    by_place = repeated[torch.argsort(place, stable=True)]
    blocks = _pair_blocks(per_column, repeated)
    return Pairs(first, second, per_entry, repeated, place, by_place, per_place[is_shared], blocks)


def _pair_blocks(per_column: Int[Tensor, " columns"], repeated: Int[Tensor, " repeated"]) -> tuple[PairBlock, ...]:
    """Consecutive columns with about `PAIRS_AT_ONCE` pairs, and at least one column."""
    used = per_column[per_column > 0]
    pair_ends = used.square().cumsum(0)
    last = (pair_ends.div(PAIRS_AT_ONCE, rounding_mode="floor").diff() > 0).nonzero()[:, 0]
    last = torch.cat([last, last.new_full((min(1, len(used)),), len(used) - 1)])
    ends = used.cumsum(0)[last], pair_ends[last], torch.searchsorted(repeated, pair_ends[last])
    cuts = [[0, *each.tolist()] for each in ends]
    return tuple(PairBlock(*(slice(*each) for each in some)) for some in zip(*map(pairwise, cuts), strict=True))


def rounds_for(pattern: CsrPattern) -> int:
    """One round more than brings a direction of average size to about length one, and at most Muon's five.

    A matrix of r rows and norm one has singular values of about 1/√r, and a round multiplies a small one by a. With
    all of Muon's rounds, a pattern of few entries would take full-length steps in directions that are only rounding
    errors, and two processes would no longer train exactly as one does.
    """
    used = [int(starts.diff().count_nonzero()) for starts in (pattern.row_starts, pattern.column_starts)]
    n_directions = max(1, min(used))
    return min(ROUNDS, 1 + round(log(sqrt(n_directions), COEFFICIENTS[0])))


def orthogonalized_on_pattern(values: Float[Tensor, " nnz"], pairs: Pairs, n_rounds: int) -> Float[Tensor, " nnz"]:
    """Newton–Schulz rounds with every product restricted to the pattern; values and result are in column order."""
    norm: Tensor = torch.linalg.vector_norm(values)
    entries = values / norm.clamp(min=TINY)
    for _ in range(n_rounds):
        entries = _round_on_pattern(entries, pairs)
    return entries


def _round_on_pattern(entries: Float[Tensor, " nnz"], pairs: Pairs) -> Float[Tensor, " nnz"]:
    """One round, a block of columns at a time: a product needs no other columns once XXᵀ is known."""
    a, b, c = COEFFICIENTS
    shared_gram = _shared_gram(entries, pairs)
    once, after = torch.empty_like(entries), torch.empty_like(entries)
    for block in pairs.blocks:
        second, lengths = pairs.second[block.pairs], pairs.per_entry[block.entries]
        others = entries[second]
        gram = entries[pairs.first[block.pairs]] * others
        gram[pairs.repeated[block.repeated] - block.pairs.start] = shared_gram[block.repeated]
        once[block.entries] = _segment_sums(gram * others, lengths)
        twice = _segment_sums(gram * once[second], lengths)
        after[block.entries] = a * entries[block.entries] + b * once[block.entries] + c * twice
    return after


def _shared_gram(entries: Float[Tensor, " nnz"], pairs: Pairs) -> Float[Tensor, " repeated"]:
    """The entry of XXᵀ that every repeated pair belongs to."""
    if not len(pairs.place):
        return entries[:0]
    products = entries[pairs.first[pairs.by_place]] * entries[pairs.second[pairs.by_place]]
    return _segment_sums(products, pairs.per_place)[pairs.place]


def rows_scaled(values: Float[Tensor, " nnz"], pattern: CsrPattern) -> Float[Tensor, " nnz"]:
    """Every row divided by its norm; values and result are in row order."""
    lengths = pattern.row_starts.diff()
    norms = _segment_sums(values.square(), lengths).sqrt().clamp(min=TINY)
    return values / norms.repeat_interleave(lengths)


def _segment_sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Sums of consecutive segments, added in the same order in every run."""
    return torch.segment_reduce(values, "sum", lengths=lengths, unsafe=True)
