"""Sequences of similar length in one forward pass, so that the model hardly ever computes padding.

Sequences are sorted by length and cut into groups, each of which is padded to its own longest sequence. The cut has the
least cost of all, where a group costs its positions, padding included, and a constant for starting a forward pass: a
group of its own for every length would compute no padding at all, but reads all weights for a handful of tokens.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PASS_COST = 16
"""Positions that take as long as starting another forward pass, on a CPU (docs/decisions.md)."""
ACCELERATOR_PASS_COST = 1024
"""The same on an accelerator, where a short pass is mostly waiting. A guess: we have measured none."""


class LengthGroup(NamedTuple):
    """Sequences that go through the model together."""

    places: list[int]
    """Which sequences, shortest first."""
    length: int
    """Length of the longest."""

    @property
    def positions(self) -> int:
        """Positions that the model computes, padding included."""
        return len(self.places) * self.length


def pass_cost(device: torch.device) -> int:
    """Positions that take as long as starting another forward pass."""
    return PASS_COST if device.type == "cpu" else ACCELERATOR_PASS_COST


def length_groups(lengths: Sequence[int], cost: int, most: int | None = None) -> list[LengthGroup]:
    """Cut sequences, sorted by length, into the groups that cost least.

    Args:
        lengths: Tokens per sequence.
        cost: Positions that take as long as starting another forward pass.
        most: Sequences per group; any number by default.

    Returns:
        Groups from the shortest sequences to the longest; every sequence is in exactly one.

    Example:
        >>> length_groups([250, 12, 10, 256], cost=16)
        [LengthGroup(places=[2, 1], length=12), LengthGroup(places=[0, 3], length=256)]
    """
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    most = len(order) if most is None else most
    best, starts = [0], [0]
    for end in range(1, len(order) + 1):
        # The group that ends here may begin at any of the last `most` places; the rest before it is cut at its best.
        longest = lengths[order[end - 1]]
        first = range(max(0, end - most), end)
        costs = [best[start] + (end - start) * longest + cost for start in first]
        best.append(min(costs))
        starts.append(first[costs.index(min(costs))])
    groups, end = list[LengthGroup](), len(order)
    while end:
        groups.append(LengthGroup(order[starts[end] : end], lengths[order[end - 1]]))
        end = starts[end]
    return groups[::-1]


def groups_of(mask: Bool[Tensor, "s l"]) -> list[LengthGroup]:
    """Groups of sequences that are padded on the right, where the mask is False."""
    return length_groups(mask.sum(dim=1).tolist(), pass_cost(mask.device))


class GroupTokens(NamedTuple):
    """The tokens of one group, and which sequences they are."""

    rows: Int[Tensor, " g"]
    tokens: Int[Tensor, "g m"]
    attention_mask: Int[Tensor, "g m"] | None
    """None where nothing is padded, which allows attention without a mask."""


def run_in_groups(
    run: Callable[[GroupTokens], dict[str, Tensor]], tokens: Int[Tensor, "s l"], mask: Bool[Tensor, "s l"] | None
) -> dict[str, Tensor]:
    """Run a model on sequences group by group and put its results together.

    Args:
        run: From the tokens of a group to named results, (g, m, ...) each.
        tokens: Padded on the right.
        mask: False on padding; None if there is none.

    Returns:
        Results (s, l, ...) of all sequences in their own order, zero on padding. Without padding these are exactly the
        results of one run.
    """
    if mask is None or bool(mask.all()):
        return run(GroupTokens(torch.arange(len(tokens), device=tokens.device), tokens, None))
    together: dict[str, Tensor] = {}
    for group in groups_of(mask):
        given = _tokens_of(group, tokens, mask)
        for name, result in run(given).items():
            if name not in together:
                together[name] = result.new_zeros(*tokens.shape, *result.shape[2:])
            together[name][given.rows, : group.length] = result
    for result in together.values():
        result[~mask] = 0
    return together


def _tokens_of(group: LengthGroup, tokens: Int[Tensor, "s l"], mask: Bool[Tensor, "s l"]) -> GroupTokens:
    rows = torch.tensor(group.places, device=tokens.device)
    own = mask[rows, : group.length]
    return GroupTokens(rows, tokens[rows, : group.length], None if bool(own.all()) else own.long())
