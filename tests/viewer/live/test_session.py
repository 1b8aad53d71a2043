"""Continuations against the model's own `generate`, with and without an intervention."""

import pytest
import torch

from quadric.interventions.in_model import intervene
from quadric.viewer.live.session import Continuation, continuation, next_tokens
from quadric.viewer.serve import SiteServer
from tests.data.tiny import tiny_model
from tests.explanations.small_run import NAME
from tests.interventions.test_in_model import dictionary
from tests.viewer.live.client import answer_of, ask

PROMPT = [5, 40, 41, 42, 90]


def generated(model, n_tokens: int) -> list[int]:
    settings = {"do_sample": False, "max_new_tokens": n_tokens, "pad_token_id": 0, "eos_token_id": 0}
    return model.causal.generate(torch.tensor([PROMPT]), **settings)[0, len(PROMPT) :].tolist()


def test_a_continuation_is_that_of_generate_with_and_without_an_intervention() -> None:
    model = tiny_model()
    seen: list[int] = []
    plain = continuation(model, PROMPT, 8, seen.append)
    assert plain.token_ids == [token for token in generated(model, 8) if token != 0]
    assert seen == list(range(1, len(seen) + 1))
    intervention = dictionary().latent(3).project(to=3.0, unreachable="nearest")

    with intervene(model, intervention, positions=slice(1, None), check_model=False):
        steered = continuation(model, PROMPT, 8)
        assert steered.token_ids == [token for token in generated(model, 8) if token != 0]
    assert not torch.equal(plain.next_log_probabilities, steered.next_log_probabilities)
    logits = model.causal(torch.tensor([PROMPT])).logits[0, -1]
    torch.testing.assert_close(plain.next_log_probabilities, logits.log_softmax(-1))


def test_next_tokens_are_the_most_likely_of_either_side() -> None:
    plain, steered = (
        Continuation([], torch.tensor(shares).log()) for shares in ([0.7, 0.2, 0.1, 0.0], [0.1, 0.2, 0.1, 0.6])
    )
    found = next_tokens(plain, steered, 3)
    assert [each.token_id for each in found] == [0, 3, 1]
    assert (found[1].plain, found[1].steered) == pytest.approx((0.0, 0.6))


def steer(live: SiteServer, **asked: object) -> dict:
    return answer_of(live.port, "steer", {"dictionary": NAME, "text": "word 3", "latent": 2, "tokens": 6, **asked})


def test_the_panel_s_answer_has_both_sides(live: SiteServer) -> None:
    found = steer(live, kind="project", amount=4.0)
    assert isinstance(found["plain"], str)
    assert found["divergence"] > 0
    shares = [max(each["plain"], each["steered"]) for each in found["next"]]
    assert shares == sorted(shares, reverse=True)
    for kind in (
        {"kind": "slide", "amount": 0.5},
        {"kind": "ablate"},
        {"kind": "project", "amount": 4.0, "where": "last"},
    ):
        assert steer(live, **kind)["plain"] == found["plain"]


def test_no_change_is_no_change(live: SiteServer) -> None:
    found = steer(live, kind="slide", amount=0.0)
    assert found["plain"] == found["steered"]
    assert found["divergence"] == 0
    assert all(each["plain"] == each["steered"] for each in found["next"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "push", "amount": 1}, "kind='push' is unknown"),
        ({"kind": "project"}, "amount=None is not a number"),
        ({"kind": "project", "amount": 1, "latent": 99}, "latent=99 is not a whole number from 0 to 23"),
        ({"kind": "slide", "amount": 1e9}, "beyond a full turn"),
        ({"kind": "slide", "amount": 1, "axes": [0, 99]}, "are not two different axes"),
        ({"kind": "slide", "amount": 1, "axes": "ab"}, "are not two numbers of axes"),
        ({"kind": "ablate", "text": "x" * 300}, "the prompt has 300 tokens"),
        ({"kind": "ablate", "tokens": 1000}, "tokens=1000 is not a whole number"),
    ],
)
def test_wrong_requests_are_answered_with_the_reason(live: SiteServer, asked: dict, message: str) -> None:
    _, lines, _ = ask(live.port, "steer", {"dictionary": NAME, "text": "word", "latent": 2, **asked})
    assert lines[-1]["state"] == "failed"
    assert message in lines[-1]["message"]
