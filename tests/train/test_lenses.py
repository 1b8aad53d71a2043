"""The lens is estimated from the first tokens, once for all learners, and the stream goes back to where it was."""

import pytest
import torch
from torch.testing import assert_close

from quadric.data.sources import rows_in_memory
from quadric.model import Atomic
from quadric.model.objective import unit_tokens
from quadric.train import Learner, Training, loop
from quadric.train.loop import estimate_lenses

ROWS = torch.randn(600, 6, generator=torch.Generator().manual_seed(0)) + torch.linspace(0, 2, 6)


def learner(lens: str = "affine", seed: int = 0) -> Learner:
    return Learner(Atomic(n_latents=8, lens=lens).build(6, seed=seed), training=Training(steps=4))


def stream(batch: int = 100):
    return rows_in_memory(ROWS).stream(batch_tokens=batch, seed=None)


def test_it_is_that_of_whole_batches_until_there_are_enough_tokens(monkeypatch):
    monkeypatch.setattr(loop, "LENS_TOKENS", 250)
    one, other, raw = learner(), learner(seed=1), learner("paper")
    estimate_lenses([one, other, raw], stream())
    assert int(one.dictionary.lens.n_tokens) == 300
    assert_close(one.dictionary.lens.centre, unit_tokens(ROWS[:300]).mean(0))
    assert_close(one.dictionary.lens.covariance, torch.cov(unit_tokens(ROWS[:300]).mT, correction=0))
    assert torch.equal(one.dictionary.lens.centre, other.dictionary.lens.centre)
    assert raw.dictionary.lens.kind == "paper"


def test_the_stream_begins_again(monkeypatch):
    monkeypatch.setattr(loop, "LENS_TOKENS", 250)
    batches = stream()
    next(iter(batches))
    before = batches.state_dict()
    estimate_lenses([learner()], batches)
    assert batches.state_dict() == before
    assert torch.equal(next(iter(batches)).activations["rows"], ROWS[100:200])


def test_a_short_stream_gives_all_it_has():
    one = learner()
    estimate_lenses([one], stream())
    assert int(one.dictionary.lens.n_tokens) == 600


def test_a_known_lens_is_kept_and_nothing_is_read(monkeypatch):
    one = learner()
    estimate_lenses([one], stream())
    known = one.dictionary.lens
    monkeypatch.setattr(loop, "_first_moments", lambda *_: pytest.fail("the stream was read"))
    estimate_lenses([one, learner("paper")], stream())
    assert one.dictionary.lens is known


def test_no_token_at_all_is_an_error():
    class Empty:
        def __iter__(self):
            return iter(())

        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    with pytest.raises(ValueError, match="no token to estimate the lens from"):
        estimate_lenses([learner()], Empty())
