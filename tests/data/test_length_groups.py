"""Groups of similar length cost least, and results are those of one padded pass, in the same order."""

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quadric.data.length_groups import (
    ACCELERATOR_PASS_COST,
    PASS_COST,
    GroupTokens,
    LengthGroup,
    groups_of,
    length_groups,
    pass_cost,
    run_in_groups,
)

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def cheapest(lengths: list[int], cost: int, most: int) -> int:
    """The least cost over every way to cut the sorted lengths."""
    ordered, found = sorted(lengths), []
    for n_cuts in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), n_cuts):
            bounds = list(zip((0, *cuts), (*cuts, len(ordered)), strict=True))
            if all(end - start <= most for start, end in bounds):
                found.append(sum((end - start) * ordered[end - 1] + cost for start, end in bounds))
    return min(found)


@given(LENGTHS, st.integers(0, 50), st.integers(1, 8))
def test_groups_cost_least_and_hold_every_sequence_once(lengths: list[int], cost: int, most: int) -> None:
    groups = length_groups(lengths, cost, most)
    assert sum(group.positions + cost for group in groups) == cheapest(lengths, cost, most)
    assert sorted(place for group in groups for place in group.places) == list(range(len(lengths)))
    for group in groups:
        assert len(group.places) <= most
        assert group.length == max(lengths[place] for place in group.places)


@given(LENGTHS)
def test_a_free_pass_leaves_no_padding_and_equal_lengths_stay_together(lengths: list[int]) -> None:
    assert sum(group.positions for group in length_groups(lengths, 0)) == sum(lengths)
    assert length_groups([7] * len(lengths), 1) == [LengthGroup(list(range(len(lengths))), 7)]


@given(LENGTHS, st.integers(0, 50))
def test_groups_are_not_cut_further_when_they_are_grouped_again(lengths: list[int], cost: int) -> None:
    for group in length_groups(lengths, cost, 3):
        again = length_groups([lengths[place] for place in group.places], cost)
        assert sum(each.positions + cost for each in again) == group.positions + cost


def test_a_pass_costs_more_where_starting_it_takes_longer() -> None:
    assert pass_cost(torch.device("cpu")) == PASS_COST
    assert pass_cost(torch.device("meta")) == ACCELERATOR_PASS_COST > PASS_COST


def prefix_sums(group: GroupTokens) -> dict[str, Tensor]:
    """A causal model of one number: at every position the sum of the tokens so far."""
    return {"sum": group.tokens.cumsum(1)[..., None].float()}


@pytest.mark.parametrize("lengths", [[200, 3, 90, 200, 2, 91], [5], [1, 300]])
def test_results_are_in_the_order_of_the_sequences_and_zero_on_padding(lengths: list[int]) -> None:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(1, 50, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    computed = []

    def run(group: GroupTokens) -> dict[str, Tensor]:
        computed.append(group.tokens.numel())
        assert (group.attention_mask is None) == bool((group.tokens > 0).all())
        return prefix_sums(group)

    found = run_in_groups(run, tokens, mask)["sum"]
    assert torch.equal(
        found, prefix_sums(GroupTokens(torch.arange(len(lengths)), tokens, None))["sum"] * mask[..., None]
    )
    assert sum(computed) == sum(group.positions for group in groups_of(mask))


@pytest.mark.parametrize("mask", [None, torch.ones(3, 4, dtype=torch.bool)])
def test_without_padding_there_is_one_run_without_a_mask(mask: Tensor | None) -> None:
    tokens = torch.arange(12).reshape(3, 4)
    result = torch.randn(3, 4, 2)
    calls = []

    def run(group: GroupTokens) -> dict[str, Tensor]:
        calls.append(group)
        return {"result": result}

    assert run_in_groups(run, tokens, mask)["result"] is result
    (call,) = calls
    assert call.attention_mask is None
    assert torch.equal(call.tokens, tokens)
