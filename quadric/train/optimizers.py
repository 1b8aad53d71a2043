"""Which optimizer updates which parameters, and Muon for dense and for sparse matrices.

    L, R and dense C   Muon
    sparse C           SparseMuon
    offsets, biases    AdamW

Muon orthogonalizes the momentum X of a matrix with the Newton–Schulz rounds X ← aX + b(XXᵀ)X + c(XXᵀ)²X.
torch.optim.Muon iterates on the whole matrix in bfloat16. Every factor that multiplies X is a polynomial in XᵀX, and
those commute, so `Muon` iterates on the small Gram matrix alone:

    A₀ = XᵀX,   P = aI + bA + cA²,   A ← PAP,   Q ← QP,   and at the end X Q.

That takes one pass over the tall matrix at each end instead of two in each of five rounds. It runs in float32, which
keeps rounding errors small: iterating on the Gram matrix squares its condition number. A dense C is not tall: with
gradients in bfloat16 its rounds are torch's.

`SparseMuon` runs the same rounds on the entries of a sparse matrix and evaluates every product (XXᵀ)Y only where the
matrix has entries, which costs one multiplication per pair of entries that share a column instead of k³.
docs/decisions.md compares it, and element-wise rules, with Muon on the whole of C.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from math import log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.model import Dictionary
from quadric.model.dictionary import Group, Moved
from quadric.model.products import CsrPattern, row_blocks, symmetric_product
from quadric.train.distributed import computed_once, current_processes
from quadric.train.settings import Training

if TYPE_CHECKING:
    from quadric.model.fast.shared import Share

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
TINY = 1e-7
VECTOR_LEARNING_RATE = 1e-3
MOST_PAIRS = 2**24
"""Largest number of pairs of entries for which `SparseMuon` runs the rounds. Above it, in the first steps after C
became sparse at the largest sizes, rows are only scaled to norm one, which is what orthogonalization does to rows that
share no atoms."""
PAIRS_AT_ONCE = 2**18
"""Pairs that go through a round together: one mebibyte per operation in float32, which stays in the CPU cache."""

Multiply = Callable[[Tensor, Tensor], Tensor]
"""A product of two matrices that is known to be symmetric."""


class Optimizers:
    """The optimizers of one dictionary, one for each of its groups of parameters."""

    def __init__(self, dictionary: Dictionary, training: Training) -> None:
        self.dictionary, self.training = dictionary, training
        self.share = _share()
        self.parts = {group.name: self._optimizer(group) for group in dictionary.parameter_groups() if group.parameters}
        """Every optimizer by the name of the group that it updates."""

    def step(self, decay: float = 1.0) -> None:
        """Update every parameter, with its learning rate times `decay`, and clear its gradient."""
        for name, optimizer in self.parts.items():
            for group in optimizer.param_groups:
                group["lr"] = decay * (VECTOR_LEARNING_RATE if name == "vectors" else self.training.rate)
            optimizer.step()
            optimizer.zero_grad()

    def follow(self, moved: Moved) -> None:
        """Optimize the parameter that took another's place, with the momentum of the entries that stayed."""
        for group in self.dictionary.parameter_groups():
            if any(each is moved.after for each in group.parameters):
                before, after = self.parts[group.name], self._optimizer(group)
                if isinstance(after, type(before) | SparseMuon):  # Muon's momentum has the same meaning on the entries
                    memory = before.state.get(moved.before, {})
                    if memory:
                        after.state[moved.after] = {
                            name: value[moved.positions] if value.ndim else value for name, value in memory.items()
                        }
                self.parts[group.name] = after

    def _optimizer(self, group: Group) -> torch.optim.Optimizer:
        rate, momentum = self.training.rate, self.training.momentum
        if group.name == "vectors":
            return torch.optim.AdamW(group.parameters, lr=VECTOR_LEARNING_RATE, weight_decay=0.0)
        if group.pattern is not None:
            return SparseMuon(group.parameters[0], group.pattern, rate, momentum)
        is_rounded = group.name == "mixing" and self.training.gradient_dtype == "bfloat16"
        return Muon(group.parameters, rate, momentum, self.share, is_rounded)


def _share() -> "Share | None":
    """This process's part of products that several processes compute together; None where there are none."""
    if current_processes().world_size == 1:
        return None
    try:
        from quadric.model.fast.shared import Share
    except ModuleNotFoundError:
        return None
    return Share(*current_processes())


class Muon(torch.optim.Optimizer):
    """Orthogonalized momentum: torch.optim.Muon with adjust_lr_fn="original" and without weight decay.

    Args:
        parameters: matrices.
        lr: learning rate.
        momentum: of the gradients.
        share: part that this process computes of the products of a single large matrix, which several processes
            orthogonalize together; by default, and for other matrices, each is orthogonalized by one process.
        is_rounded: run the rounds on the whole matrix in bfloat16, as torch.optim.Muon does; faster on hardware that
            has it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float,
        share: "Share | None" = None,
        is_rounded: bool = False,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        self.share, self.is_rounded = share, is_rounded

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            momenta = (nesterov_momentum(self.state[each], each.grad, group["momentum"]) for each in trained)
            for parameter, direction in zip(trained, self._directions(trained, momenta), strict=True):
                rows, columns = parameter.shape
                parameter.sub_(direction.to(parameter.dtype), alpha=group["lr"] * sqrt(max(1, rows / columns)))

    def _directions(self, trained: list[nn.Parameter], momenta: Iterable[Tensor]) -> Iterable[Tensor]:
        """The orthogonalized momenta, the same bits on every process."""
        orthogonalize = orthogonalized_in_bfloat16 if self.is_rounded else orthogonalized
        # A product that one process computes in one block is not worth sharing. Computed in several blocks, it would
        # also be rounded differently, which the rounds amplify: losses would be ten times further from one process's.
        is_large = len(trained) == 1 and len(row_blocks(min(trained[0].shape))) > 1
        if self.share is not None and is_large and not self.is_rounded:
            return map(partial(orthogonalized, share=self.share), momenta)
        return computed_once(orthogonalize, momenta)


def nesterov_momentum(state: dict[str, Tensor], grad: Float[Tensor, "*s"], momentum: float) -> Float[Tensor, "*s"]:
    """The momentum after this gradient with Nesterov's look-ahead, at least in float32."""
    if not state:
        state["momentum_buffer"] = torch.zeros_like(grad)
    buffer = state["momentum_buffer"]
    buffer.lerp_(grad, 1 - momentum)
    ahead = grad.lerp(buffer, momentum)
    return ahead.to(torch.promote_types(ahead.dtype, torch.float32))


def orthogonalized(matrix: Float[Tensor, "m n"], share: "Share | None" = None) -> Float[Tensor, "m n"]:
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
    from quadric.model.fast.shared import shared_product, shared_symmetric_product

    multiply = partial(shared_symmetric_product, share=share)
    return shared_product(tall, _factor_product(multiply(tall.mT, tall), multiply), share)


def orthogonalized_in_bfloat16(matrix: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """Like `orthogonalized`, with the rounds on the matrix itself, whose Gram matrix bfloat16 would lose."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalized_in_bfloat16(matrix.mT).mT
    norm: Tensor = torch.linalg.matrix_norm(matrix)
    wide = (matrix / norm.clamp(min=TINY)).bfloat16()
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = symmetric_product(wide, wide.mT)
        factor = symmetric_product(gram, gram).mul_(c).add_(gram, alpha=b)
        wide = torch.addmm(wide, factor, wide, beta=a)
    return wide.to(matrix.dtype)


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

    def _direction(self, momentum: Tensor) -> Tensor:
        if self.pairs is None:
            return rows_scaled(momentum, self.pattern)
        direction = orthogonalized_on_pattern(momentum[self.pattern.by_column], self.pairs, self.n_rounds)
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
