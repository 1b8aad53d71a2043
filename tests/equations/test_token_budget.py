"""The table of hyperparameters: batch size, sequence length and steps do not give the printed number of tokens."""

import pytest

from quadric.run.recipes import paper

PRINTED_TOKENS = 8e6


def test_steps_and_batches_give_twice_the_printed_total() -> None:
    config = paper("smollm2", "18")
    tokens = config.training.steps * config.sequences_per_step * config.activations.corpus.block_length
    assert tokens == 2**11 * 32 * 256 == 2**24
    assert tokens / PRINTED_TOKENS == pytest.approx(2, abs=0.1)
