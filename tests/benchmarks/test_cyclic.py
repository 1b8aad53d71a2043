"""Ways between words: ends, isometry and off-target mass have their meaning."""

import math

import pytest
import torch

from benchmarks.cyclic import QUESTIONS, WAYS, Question, cyclic_study, drawn_pairs, isometry, pairwise_hellinger
from quadric.data.hook_points import parse_hook_point
from quadric.studies.steering.measures import hellinger
from tests.data.tiny import N_LAYERS
from tests.studies.steering.conftest import Steerable

pytestmark = pytest.mark.slow

POINT = parse_hook_point("resid_pre.2", N_LAYERS)
DAYS = Question(
    concept="weekdays", template="After {} is", words=("Monday", "Friday", "Sunday"), answers=("F", "S", "M")
)


@pytest.fixture(scope="module")
def found(steerable: Steerable):
    return cyclic_study(steerable.model, POINT, steerable.ae, questions=[DAYS], n_pairs=3)[0]


def test_every_pair_has_every_way(found) -> None:
    assert [row.way for row in found.rows] == list(WAYS) * 3
    assert {row.latent for row in found.rows} == {found.capture.latent}


def test_the_way_through_all_of_x_ends_at_the_other_question(found, steerable: Steerable) -> None:
    whole = [row for row in found.rows if row.way == "all of x"]
    for row in whole:
        assert row.length == pytest.approx(1, abs=1e-4)
        assert row.moved == pytest.approx(1, abs=1e-3)
        assert row.missing == pytest.approx(0, abs=1e-3)


def test_quadric_and_line_share_both_ends(found) -> None:
    for quadric, line in zip(found.rows[0::3], found.rows[1::3], strict=True):
        if quadric.length is None:
            assert line.length is None
            continue
        assert quadric.off_target_end == pytest.approx(line.off_target_end, abs=1e-5)
        assert quadric.answer == pytest.approx(line.answer, abs=1e-5)
        assert line.length <= quadric.length + 1e-6  # nothing is shorter than straight


def test_off_target_and_accuracy_against_the_model(found, steerable: Steerable) -> None:
    model = steerable.model
    ids = [model.tokenizer.encode([answer])[0][0] for answer in DAYS.answers]
    right = 0
    for place, word in enumerate(DAYS.words):
        tokens = torch.tensor(model.tokenizer.encode([DAYS.template.format(word)]))
        p = model.causal(tokens).logits[0, -1].softmax(-1)
        right += int(p[ids].argmax()) == place
        starts = [row.off_target_start for row in found.rows if row.start == word and row.off_target_start is not None]
        assert all(each == pytest.approx(float(1 - p[ids].sum()), abs=1e-4) for each in starts)
    assert found.accuracy == pytest.approx(right / 3)


def test_isometry_of_a_great_circle() -> None:
    """√p on a great circle, at equal steps: distances are chords of the angle, nearly proportional to it."""
    angles = torch.linspace(0, 0.8, 6).double()
    p = torch.stack([angles.cos().square(), angles.sin().square()], dim=1)
    points = angles[:, None, None] * torch.ones(1, 2, 3).double()
    assert isometry(points, p.log()) > 0.999
    chord = math.sqrt(2) * math.sin(0.4)
    assert float(hellinger(p[0].log(), p[-1].log())) == pytest.approx(chord, abs=1e-6)
    backwards = p[torch.tensor([0, 3, 1, 4, 2, 5])]
    assert isometry(points, backwards.log()) < 0.9
    assert isometry(torch.zeros_like(points), p.log()) == 0


def test_pairs_differ_and_follow_the_seed() -> None:
    pairs = drawn_pairs(7, 12, 0)
    assert len(set(pairs)) == 12
    assert all(a != b for a, b in pairs)
    assert pairs == drawn_pairs(7, 12, 0) != drawn_pairs(7, 12, 1)
    assert len(drawn_pairs(3, 99, 0)) == 6


def test_words_of_different_length_are_refused(steerable: Steerable) -> None:
    odd = Question(concept="weekdays", template="After {} is", words=("Monday", "Tuesday"), answers=("T", "W"))
    with pytest.raises(ValueError, match=r"different numbers of tokens.*give words of one length"):
        cyclic_study(steerable.model, POINT, steerable.ae, questions=[odd])


def test_every_question_has_one_answer_per_word() -> None:
    assert [each.concept for each in QUESTIONS] == ["weekdays", "months", "numbers", "years"]
    for question in QUESTIONS:
        assert len(question.words) == len(question.answers)
    assert dict(zip(QUESTIONS[0].words, QUESTIONS[0].answers, strict=True))["Saturday"] == " Monday"
    assert dict(zip(QUESTIONS[3].words, QUESTIONS[3].answers, strict=True))["1984"] == "5"


def test_pairs() -> None:
    log_p = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    found = pairwise_hellinger(log_p)
    for i in range(5):
        for j in range(5):
            assert torch.isclose(found[i, j], hellinger(log_p[i], log_p[j]))
