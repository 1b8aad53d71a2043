"""Muon for the values of a sparse C: Newton–Schulz that never leaves the pattern of its entries.

Muon orthogonalizes the momentum X of a matrix by X ← aX + b(XXᵀ)X + c(XXᵀ)²X. On the entries of a sparse matrix we
run the same rounds and read every product (XXᵀ)Y at the pattern only, which costs a multiplication for each pair of
entries that share a column instead of k³. How it and element-wise rules compare with Muon on the whole of C is
measured by benchmarks/bench_mixing_optimizer.py.
"""

from collections.abc import Callable
from math import log, sqrt
from typing import Any, NamedTuple, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.autoencoders.kernels.csr import CsrPattern
from quadric.training.muon import COEFFICIENTS, ROUNDS, TINY, nesterov_momentum

MOST_PAIRS = 2**24
"""Pairs of entries up to which the rounds are run; beyond, in the first steps after C became sparse at the largest
sizes, rows are only scaled to norm one, which is what orthogonalizing does to rows that share no atoms."""


class Pairs(NamedTuple):
    """Pairs of entries that share a column, entries counted in column order; their rows name a place of XXᵀ."""

    first: Int[Tensor, " pairs"]
    second: Int[Tensor, " pairs"]
    per_entry: Int[Tensor, " nnz"]
    """How many pairs each entry is first in; pairs stand in that order."""
    place: Int[Tensor, " pairs"]
    """Number of the place of XXᵀ that the rows of a pair name."""
    by_place: Int[Tensor, " pairs"]
    """The order of the pairs when sorted by place."""
    per_place: Int[Tensor, " places"]


def count_pairs(pattern: CsrPattern) -> int:
    """How many pairs of entries share a column."""
    return int(pattern.column_starts.diff().square().sum())


def column_pairs(pattern: CsrPattern) -> Pairs:
    """All pairs of entries in the same column, an entry with itself too."""
    per_column = pattern.column_starts.diff()
    per_entry = per_column.repeat_interleave(per_column)
    entries = torch.arange(len(per_entry), device=per_entry.device)
    first = entries.repeat_interleave(per_entry)
    column_start = pattern.column_starts[:-1].repeat_interleave(per_column)
    # Within an entry's pairs the second runs through the column from its start.
    own_start = per_entry.cumsum(0) - per_entry
    second = torch.arange(len(first), device=first.device) + (column_start - own_start)[first]
    keys = pattern.rows_by_column[first] * pattern.shape[0] + pattern.rows_by_column[second]
    _, place, per_place = torch.unique(keys, return_inverse=True, return_counts=True)
    return Pairs(first, second, per_entry, place, torch.argsort(place, stable=True), per_place)


def rounds_for(pattern: CsrPattern) -> int:
    """One round more than about brings a direction of ordinary size to length one, and no more than Muon has.

    A matrix of r rows and norm one has singular values of about 1/√r, and a round multiplies a faint one by a. A
    pattern of a few entries that went through all of Muon's rounds would step to its full length in whatever direction
    rounding errors point, and two processes would no longer train as one does.
    """
    used = [int(starts.diff().count_nonzero()) for starts in (pattern.row_starts, pattern.column_starts)]
    n_directions = max(1, min(used))
    return min(ROUNDS, 1 + round(log(sqrt(n_directions), COEFFICIENTS[0])))


def orthogonalized_on_pattern(values: Float[Tensor, " nnz"], pairs: Pairs, n_rounds: int) -> Float[Tensor, " nnz"]:
    """The rounds of Newton–Schulz, every product read at the pattern; values and result are in column order."""
    a, b, c = COEFFICIENTS
    norm: Tensor = torch.linalg.vector_norm(values)
    entries = values / norm.clamp(min=TINY)
    for _ in range(n_rounds):
        products = (entries[pairs.first] * entries[pairs.second])[pairs.by_place]
        gram = _sums(products, pairs.per_place)[pairs.place]
        once = _sums(gram * entries[pairs.second], pairs.per_entry)
        twice = _sums(gram * once[pairs.second], pairs.per_entry)
        entries = a * entries + b * once + c * twice
    return entries


def rows_scaled(values: Float[Tensor, " nnz"], pattern: CsrPattern) -> Float[Tensor, " nnz"]:
    """Every row divided by its norm; values and result are in row order."""
    lengths = pattern.row_starts.diff()
    norms = _sums(values.square(), lengths).sqrt().clamp(min=TINY)
    return values / norms.repeat_interleave(lengths)


def _sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Sums of consecutive stretches, in an order that does not change from run to run."""
    return torch.segment_reduce(values, "sum", lengths=lengths, unsafe=True)


class SparseMuon(torch.optim.Optimizer):
    """Muon for the entries of one sparse matrix, in row order."""

    def __init__(self, values: nn.Parameter, pattern: CsrPattern, lr: float, momentum: float) -> None:
        super().__init__([values], {"lr": lr, "momentum": momentum})
        self.pattern = pattern
        self.n_rounds = rounds_for(pattern)
        self.pairs = column_pairs(pattern) if count_pairs(pattern) <= MOST_PAIRS else None

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        (group,) = self.param_groups
        (values,) = group["params"]
        if values.grad is None:
            return
        direction = self._direction(nesterov_momentum(self.state[values], values.grad, group["momentum"]))
        rows, columns = self.pattern.shape
        values.sub_(direction.to(values.dtype), alpha=group["lr"] * sqrt(max(1, rows / columns)))

    def _direction(self, ahead: Tensor) -> Tensor:
        if self.pairs is None:
            return rows_scaled(ahead, self.pattern)
        direction = orthogonalized_on_pattern(ahead[self.pattern.by_column], self.pairs, self.n_rounds)
        return direction[self.pattern.by_row]
