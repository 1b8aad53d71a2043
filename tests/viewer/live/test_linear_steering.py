"""Steering by a direction: its activation is clamped where the dictionary reads, and nothing else is offered."""

from pathlib import Path

import pytest

from quadric.data.hook_points import parse_hook_point
from quadric.interventions.in_model import edit_activations
from quadric.interventions.latents import clamp
from quadric.viewer.live.session import RequestError, Session, continuation
from quadric.viewer.live.worker import Job
from tests.explanations.small_run import make_linear_explainer

TEXT = "Document 3: word 3"


@pytest.fixture(scope="module")
def session(live_run: Path) -> Session:
    return Session({"linear": make_linear_explainer(live_run)})


def ask(session: Session, **request: object) -> dict:
    given = {"dictionary": "linear", "text": TEXT, "latent": 2, "tokens": 3} | request
    return session.steer(given, Job(lambda job: None))


def test_a_clamped_latent_changes_what_comes_next_as_clamping_by_hand_does(session: Session) -> None:
    found = ask(session, kind="project", amount=2.0)
    assert found["divergence"] > 0
    explainer = session.explainers["linear"]
    first = [] if explainer.reader.first is None else [explainer.reader.first]
    prompt = first + session.model.tokenizer.encode([TEXT])[0]
    point = parse_hook_point("resid_pre.2", session.model.n_layers)
    change = clamp(explainer.autoencoder, 2, 2.0)
    with edit_activations(
        session.model, point, change, explainer.autoencoder.d_model, positions=slice(len(first), None)
    ):
        by_hand = continuation(session.model, prompt, 3)
    shown = {each["text"]: each["steered"] for each in found["next"]}
    best = int(by_hand.next_log_probabilities.argmax())
    assert shown[session._word(best)] == pytest.approx(float(by_hand.next_log_probabilities[best].exp()), rel=1e-4)


def test_removing_a_latent_is_clamping_it_to_zero(session: Session) -> None:
    removed, clamped = ask(session, kind="ablate"), ask(session, kind="project", amount=0)
    assert removed["next"] == clamped["next"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"kind": "slide", "amount": 1}, "not offered for a direction"),
        ({"kind": "project", "amount": None}, "is not a number"),
    ],
)
def test_what_a_direction_cannot_do_is_said(session: Session, request_: dict, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        ask(session, **request_)


def test_the_tokens_of_a_text_are_stars_in_its_picture(session: Session) -> None:
    found = session.stars({"dictionary": "linear", "text": TEXT, "latent": 2, "axes": 6}, Job(lambda job: None))
    assert len(found["coordinates"]) == 6
    assert len(found["values"]) == len(found["tokens"]) == len(found["coordinates"][0])
    assert min(found["values"]) >= 0
