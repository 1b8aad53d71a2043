"""Scores of labels: right for planted latents, chance for wrong labels, and only on documents that were held out."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from quadric.data.sources import as_activations
from quadric.evidence import Evidence, Points, RowText, TextRead
from quadric.evidence.collecting import collect_in_memory
from quadric.evidence.record import MISSING, LabelScore
from quadric.evidence.scoring import FEWEST_CONTEXTS, HELD_OUT, HeldOutText, balanced, held_out, score_rules
from tests.evidence.streams import small_autoencoder
from tests.evidence.test_collector import SETTINGS, collected, finished

WORDS = [b" the", b" a", b" of", b" Monday", b"monday", b" one", b" part"]
THE, A, OF, MONDAY, LOWER, ONE, PART = range(7)
LENGTH, N_SEQUENCES = 20, 800
BASE = finished(collected())


def planted(fires_on: list[int], after: int | None = None, seed: int = 0) -> Evidence:
    """Evidence in which latent 0 fires wherever a token is one of these; everything was drawn."""
    generator = np.random.default_rng(seed)
    shares = [0.35, 0.3, 0.19, 0.04, 0.04, 0.04, 0.04]
    ids = generator.choice(len(WORDS), size=N_SEQUENCES * LENGTH, p=shares).astype(np.int32)
    fires = np.isin(ids, fires_on)
    if after is not None:
        fires &= np.append(False, ids[:-1] == after) & (np.arange(len(ids)) % LENGTH != 0)
    places = np.tile(np.arange(len(ids)), (BASE.n_latents, 1))
    values = np.tile(fires.astype(np.float32), (BASE.n_latents, 1))
    text = TextRead(
        token_ids=ids,
        sequence_starts=np.arange(0, len(ids), LENGTH),
        documents=np.repeat(np.arange(N_SEQUENCES), LENGTH).astype(np.int32),
        vocabulary=WORDS,
    )
    return dataclasses.replace(
        BASE,
        settings=dataclasses.replace(SETTINGS, window=1),
        text=text,
        points=Points(
            places=places,
            values=values,
            coordinates=np.zeros((*values.shape, 1), dtype=np.float32),
            linear=np.zeros_like(values),
            control=np.zeros((*values.shape, 3), dtype=np.float32),
        ),
        statistics=dataclasses.replace(BASE.statistics, mean_square=np.full(BASE.n_latents, 0.01, dtype=np.float32)),
        calibration=dataclasses.replace(BASE.calibration, rest=np.zeros(BASE.n_latents, dtype=np.float32)),
    )


def score(evidence: Evidence, label: str) -> LabelScore:
    found = score_rules(evidence, [label, *[""] * (BASE.n_latents - 1)])
    assert found is not None
    assert found[1:] == [None] * (BASE.n_latents - 1)  # no label, no score
    assert found[0] is not None
    return found[0]


def test_a_perfect_label_has_perfect_scores_and_case_does_not_matter() -> None:
    assert score(planted([MONDAY, LOWER]), "Monday") == LabelScore(detection=1.0, fuzzing=1.0, n_contexts=100)


@pytest.mark.parametrize("label", ["part", "mixed", "nothing of the text", "…"])
def test_a_wrong_label_is_no_better_than_chance(label: str) -> None:
    found = score(planted([MONDAY, LOWER]), label)
    assert found.detection == pytest.approx(0.5, abs=0.1)
    assert found.fuzzing == pytest.approx(0.5, abs=0.05)


def test_half_of_a_label_has_half_of_the_gain() -> None:
    both, half = (score(planted([MONDAY, LOWER, PART]), label) for label in ("Monday · part", "Monday"))
    assert both.fuzzing == 1.0
    assert half.fuzzing == pytest.approx(0.5 + 0.5 * 2 / 3, abs=0.1)


def test_both_signs_count_and_a_minus_is_no_word() -> None:
    evidence = planted([MONDAY, LOWER, PART])
    assert score(evidence, "Monday ↔ part").fuzzing == 1.0
    assert score(planted([PART]), "− part").fuzzing == 1.0


def test_what_a_token_follows_is_part_of_the_rule() -> None:
    evidence = planted([OF], after=ONE)
    exact, loose, alone = (score(evidence, label) for label in ("after one: of", "of", "after one"))
    assert exact.detection == exact.fuzzing == 1.0
    assert loose.detection < 0.9
    assert alone.fuzzing == 1.0  # whatever follows, in windows that hold an "of" there
    assert score(planted([OF, PART], after=ONE), "after one: of · part").detection == 1.0


def test_a_judge_who_always_agrees_is_at_chance() -> None:
    yes, no = np.ones(10, dtype=bool), np.zeros(10, dtype=bool)
    assert balanced(yes, yes) == balanced(no, no) == 0.5
    assert balanced(yes, no) == 1


def test_every_place_is_held_out_scored_and_of_its_kind() -> None:
    evidence = planted([MONDAY, LOWER])
    dropped = np.array(evidence.points.places)
    dropped[:, ::7] = MISSING  # not scored, or not drawn
    text = HeldOutText(dataclasses.replace(evidence, points=dataclasses.replace(evidence.points, places=dropped)))
    trials = text.trials(0, 50, np.random.default_rng(0))
    assert trials is not None
    ids, documents = evidence.text.token_ids, evidence.text.documents
    for places in trials:
        assert held_out(documents[places]).all()
    assert len(trials.firing) == len(trials.quiet) == 50
    assert np.isin(ids[trials.firing], [MONDAY, LOWER]).all()
    assert np.isin(trials.quiet, dropped[0]).all()
    assert np.isin(trials.firing, dropped[0]).all()
    known = np.isin(np.arange(len(ids)), dropped[0]) & np.isin(ids, [MONDAY, LOWER])
    assert not known[trials.wrong].any()
    assert (np.abs(trials.wrong - trials.wrong_of) == 1).all()
    assert (trials.wrong // LENGTH == trials.wrong_of // LENGTH).all()
    assert not text.any_in_window(known, trials.quiet).any()


def test_too_few_firing_tokens_and_too_few_documents_are_not_scored() -> None:
    evidence = planted([MONDAY])
    values = np.array(evidence.points.values)
    held = np.flatnonzero(held_out(evidence.text.documents) & (values[0] > 0))
    values[0, held[FEWEST_CONTEXTS - 1 :]] = 0
    few = dataclasses.replace(evidence, points=dataclasses.replace(evidence.points, values=values))
    (first, *_) = score_rules(few, ["Monday"] * BASE.n_latents) or [None]
    assert first is None
    one = dataclasses.replace(evidence.text, documents=np.zeros_like(evidence.text.documents))
    assert score_rules(dataclasses.replace(evidence, text=one), ["Monday"] * BASE.n_latents) is None


def test_rows_have_no_token_beside_them_and_no_fuzzing() -> None:
    evidence = planted([MONDAY, LOWER])
    n = len(evidence.text.token_ids)
    rows = dataclasses.replace(evidence.text, sequence_starts=np.arange(n), documents=np.arange(n, dtype=np.int32))
    found = score(dataclasses.replace(evidence, text=rows), "Monday")
    assert (found.detection, found.fuzzing) == (1.0, None)


def test_a_label_does_not_see_what_only_held_out_documents_hold() -> None:
    x = torch.randn(400, 12, generator=torch.Generator().manual_seed(0))
    names = ["secret" if row % HELD_OUT == HELD_OUT - 1 else f"word {row % 3}" for row in range(400)]
    stream = as_activations(x).stream(batch_tokens=64, seed=None)
    evidence = collect_in_memory(small_autoencoder(), stream, RowText(400, names), n_tokens=400, settings=SETTINGS)
    words = [word for words in (*evidence.labels.positive, *evidence.labels.negative) for word in words]
    assert any(word.startswith("word") for word in words)
    assert "secret" not in " ".join([*words, *evidence.labels.texts])


def test_scores_survive_on_disk(tmp_path: Path) -> None:
    scores = [LabelScore(detection=0.8, fuzzing=None, n_contexts=12), *[None] * (BASE.n_latents - 1)]
    evidence = dataclasses.replace(BASE, labels=dataclasses.replace(BASE.labels, scores=scores))
    evidence.save(tmp_path)
    assert Evidence.load(tmp_path).labels.scores == scores
    path = tmp_path / "evidence.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["labels"]["scores"] = [{"detection": "high"}]
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the keys"):
        Evidence.load(tmp_path)
