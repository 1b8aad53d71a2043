"""Labels by a model are scored by the same model: on held-out contexts, once, with answers that can be read."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from quadric.evidence import Evidence
from quadric.evidence.endpoints import AnswerError, Endpoint, EndpointError
from quadric.evidence.labelling import (
    ANSWERS,
    CONTEXTS,
    SCORE_ANSWERS,
    label_latents,
    matches_in,
    prompt_for,
    score_labels,
)
from quadric.evidence.record import LabelScore, ModelLabels
from quadric.evidence.scoring import held_out
from tests.evidence.fake_endpoint import Reply, Request, openai_reply, serving
from tests.evidence.test_scoring import BASE, LOWER, MONDAY, planted

PERFECT = LabelScore(detection=1.0, fuzzing=1.0, n_contexts=CONTEXTS)


def prompt_of(request: Request) -> str:
    return str(request.body["messages"][0]["content"])


def passages(prompt: str) -> dict[int, str]:
    return {int(number): json.loads(text) for number, text in re.findall(r'^(\d+)\. (".*")$', prompt, re.MULTILINE)}


def a_judge_who_knows(number: int, request: Request) -> Reply:
    """Accepts passages with a Monday, or with a marked one."""
    wanted = r"⟦\s*monday⟧" if "⟦" in "".join(passages(prompt_of(request)).values()) else "monday"
    found = [n for n, text in passages(prompt_of(request)).items() if re.search(wanted, text, re.IGNORECASE)]
    return openai_reply(f'Here: {{"matches": {found}}}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Evidence about Mondays, labelled by a model."""
    evidence = planted([MONDAY, LOWER])
    labels = dataclasses.replace(
        evidence.labels,
        scores=[None] * BASE.n_latents,
        from_model=ModelLabels(texts={0: "weekdays", 1: "<b>days</b>"}, model="m", endpoint="e", prompt_sha256="0"),
    )
    dataclasses.replace(evidence, labels=labels).save(tmp_path)
    return tmp_path


def test_a_perfect_judge_gives_perfect_scores_which_are_stored_and_asked_for_once(folder: Path) -> None:
    with serving(a_judge_who_knows) as server:
        endpoint = Endpoint(url=server.url, model="m")
        steps: list[tuple[str, int, int, str]] = []
        report = score_labels(folder, [0, 1, 3], endpoint, on_progress=lambda *step: steps.append(step))
        assert report.scored == {0: PERFECT, 1: PERFECT}  # latent 3 has no label
        assert (report.failures, len(server.requests), steps[-1]) == ({}, 4, ("scores", 4, 4, ""))
        assert score_labels(folder, [0, 1], endpoint).scored == report.scored
        assert len(server.requests) == 4
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert written.scores == report.scored
    assert "2 scored" in repr(written)


@pytest.mark.parametrize("everything", [True, False])
def test_a_judge_who_says_the_same_of_all_is_at_chance(folder: Path, everything: bool) -> None:
    said = list(range(1, 2 * CONTEXTS + 1)) if everything else []
    with serving(lambda *_: openai_reply(json.dumps({"matches": said}))) as server:
        report = score_labels(folder, [0], Endpoint(url=server.url, model="m"))
    assert report.scored == {0: LabelScore(detection=0.5, fuzzing=0.5, n_contexts=CONTEXTS)}


def test_the_order_of_passages_says_nothing(folder: Path) -> None:
    with serving(a_judge_who_knows) as server:
        score_labels(folder, [0], Endpoint(url=server.url, model="m"))
    (detection,) = (prompt for each in server.requests if "⟦" not in (prompt := prompt_of(each)))
    fires = ["monday" in text.lower() for text in passages(detection).values()]
    assert sum(fires) == CONTEXTS == len(fires) / 2
    assert fires != sorted(fires, reverse=True)
    assert "follow no instruction" in detection
    assert '"weekdays"' in detection


def test_an_odd_answer_leaves_a_label_unscored_and_says_so(folder: Path) -> None:
    def odd_fuzzing(number: int, request: Request) -> Reply:
        marked = "⟦" in prompt_of(request)
        return openai_reply('{"matches": [0, 99]}') if marked else a_judge_who_knows(number, request)

    with serving(odd_fuzzing) as server:
        report = score_labels(folder, [0], Endpoint(url=server.url, model="m"))
        assert len(server.requests) == 3  # detection once, fuzzing twice
    assert report.scored == {}
    assert "numbers from 1 to 40" in report.failures[0]
    assert Evidence.load(folder).labels.from_model.scores == {}  # type: ignore[union-attr]


def test_a_refusal_keeps_the_scores_that_are_complete(folder: Path) -> None:
    def refuse(number: int, request: Request) -> Reply:
        return a_judge_who_knows(number, request) if number < 2 else Reply(401, b"no")

    with serving(refuse) as server, pytest.raises(EndpointError, match="check the key"):
        score_labels(folder, [0, 1], Endpoint(url=server.url, model="m"), concurrency=1)
    assert list(Evidence.load(folder).labels.from_model.scores) == [0]  # type: ignore[union-attr]
    assert (folder / SCORE_ANSWERS).read_text(encoding="utf-8").count("\n") == 2


def test_evidence_without_held_out_documents_is_refused(folder: Path) -> None:
    evidence = Evidence.load(folder)
    dataclasses.replace(evidence, labels=dataclasses.replace(evidence.labels, scores=None)).save(folder)
    with serving(a_judge_who_knows) as server:
        with pytest.raises(ValueError, match="no documents apart to score labels on; collect it again"):
            score_labels(folder, [0], Endpoint(url=server.url, model="m"))
        assert server.requests == []


def test_a_new_label_loses_the_score_of_the_old_one_and_others_keep_theirs(folder: Path) -> None:
    def label_or_judge(number: int, request: Request) -> Reply:
        if "Name what the feature" not in prompt_of(request):
            return a_judge_who_knows(number, request)
        return openai_reply(json.dumps({"label": f"label {number}"}))

    with serving(label_or_judge) as server:
        endpoint = Endpoint(url=server.url, model="m")
        label_latents(folder, [0, 1], endpoint)
        score_labels(folder, [0, 1], endpoint)
        (folder / ANSWERS).unlink()  # else the old labels would be found there
        label_latents(folder, [1], endpoint)
    written = Evidence.load(folder).labels.from_model
    assert written is not None
    assert set(written.texts) == {0, 1}
    assert list(written.scores) == [0]


def test_the_prompt_for_a_label_shows_no_held_out_context() -> None:
    evidence = planted([MONDAY, LOWER])
    held = held_out(evidence.text.documents)
    places = evidence.contexts.places.copy()
    places[0, 0] = [*held.nonzero()[0][:1], *(~held).nonzero()[0][:2]]
    contexts = dataclasses.replace(evidence.contexts, places=places)
    scored, unscored = (
        dataclasses.replace(evidence, contexts=contexts, labels=dataclasses.replace(evidence.labels, scores=scores))
        for scores in ([None] * BASE.n_latents, None)
    )
    positive = [prompt_for(each, 0).split("Negative")[0].split("Positive")[1].count("⟦") for each in (scored, unscored)]
    assert positive == [2, 3]


@pytest.mark.parametrize(
    "answer", ["", "[1]", '{"matches": "1"}', *(f'{{"matches": [{odd}]}}' for odd in ("1.5", "true", "4"))]
)
def test_an_answer_without_numbers_in_range_is_an_error(answer: str) -> None:
    with pytest.raises(AnswerError, match="numbers from 1 to 3"):
        matches_in(answer, 3)
    assert matches_in('Well: {"matches": [3, 1, 3]}.', 3) == [1, 3]
