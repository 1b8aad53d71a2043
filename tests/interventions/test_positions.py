"""Positions of the tokens that a forward pass reads."""

import pytest
import torch
from transformers import DynamicCache

from quadric.interventions.in_model import check_positions, selected, token_positions
from tests.data.tiny import random_tokens, tiny_causal

DECODER = tiny_causal().get_decoder()
TOKENS = random_tokens(2, 5)


def test_without_a_mask_positions_count_from_the_start():
    assert token_positions(DECODER, (TOKENS,), {}).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_padding_on_either_side_has_no_position():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    found = token_positions(DECODER, (), {"input_ids": TOKENS, "attention_mask": mask})
    assert found.tolist() == [[-1, -1, 0, 1, 2], [0, 1, 2, 3, -1]]


def test_the_cache_counts():
    cache = DynamicCache(config=DECODER.config)
    DECODER(TOKENS, past_key_values=cache, use_cache=True)
    assert token_positions(DECODER, (TOKENS[:, :1],), {"past_key_values": cache}).tolist() == [[5], [5]]
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    found = token_positions(DECODER, (TOKENS[:, :1], mask), {"past_key_values": cache})
    assert found.tolist() == [[3], [5]]


def test_position_ids_stand_in_for_a_mask_that_is_not_a_matrix():
    named = {"attention_mask": {"full_attention": None}, "position_ids": torch.arange(3, 8)[None]}
    assert token_positions(DECODER, (TOKENS,), named).tolist() == [[3, 4, 5, 6, 7]] * 2


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(None, [0, 1, 2, 3]), (2, [2]), ([0, 3, 9], [0, 3]), (slice(1, 3), [1, 2]), (slice(1, None, 2), [1, 3]), ([], [])],
)
def test_selection(wanted, expected):
    positions = torch.tensor([[-1, 0, 1, 2, 3]])
    assert positions[selected(positions, wanted)].tolist() == expected


@pytest.mark.parametrize("wanted", [-1, [0, -2], slice(-3, None)])
def test_positions_from_the_end_are_refused(wanted):
    with pytest.raises(ValueError, match="count from the first token"):
        check_positions(wanted)
