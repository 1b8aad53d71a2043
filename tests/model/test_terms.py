"""Terms as objects: their weights and schedules, what is refused, and how terms of a user's own are stored."""

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from quadric.model import Density, Error, Mean, Overlap, SquaredError, Term, paper_loss
from quadric.model.terms import TERMS, as_loss, term_from_json


class Sparse(Term):
    """A user's own, with settings."""

    name = "sparse"

    weight: float = 0.2
    power: float = 1.0
    latents: tuple[int, ...] = ()
    depth: int | None = None

    def __call__(self, step):
        return step.mean(step.z.abs().pow(self.power).sum(1))


def test_the_papers_loss():
    assert paper_loss() == (Error(), Density(0.3))
    assert paper_loss(0.1)[1].weight == 0.1
    assert TERMS.keys() >= {"error", "density", "overlap", "mean", "squared_error"}


def test_the_weight_of_the_density_warms_up_linearly_and_stays():
    weights = [Density(0.3, warmup=4).weight_at(step, 100) for step in range(6)]
    assert weights == pytest.approx([0, 0.075, 0.15, 0.225, 0.3, 0.3])
    assert [Density(0.3, warmup=0).weight_at(0, 100), Density(0.3).weight_at(0, 7)] == [0.3, 0.3]
    assert [Density(1.0).weight_at(step, 80) for step in (0, 5, 10)] == [0, 0.5, 1], "an eighth of the steps"
    assert [Density(1.0).weight_at(step, 4096) for step in (128, 256)] == [0.5, 1], "at most the paper's"
    assert Error(0.5).weight_at(3, 10) == 0.5


@pytest.mark.parametrize("term", [Error(0.5, top=3), Density(), Overlap(), Mean(2.0), SquaredError(), Sparse(0.1, 2.0)])
def test_a_term_comes_back_from_json_with_all_its_fields(term):
    assert term_from_json(json.loads(json.dumps(term.as_json())), "run.json") == term
    assert list(term.as_json())[:2] == ["name", "weight"]


def test_a_term_of_ones_own_is_a_frozen_dataclass():
    term = Sparse(power=2, latents=(1, 2), depth=4)
    assert (term.weight, term.power, term.latents) == (0.2, 2.0, (1, 2))
    assert term_from_json(json.loads(json.dumps(term.as_json())), "run.json") == term
    with pytest.raises(FrozenInstanceError):
        term.weight = 3.0


def test_numbers_of_numpy_are_numbers():
    """tests/test_wrong_types.py does it to ours, in a process without the type checks of the tests."""
    term = Sparse(np.float32(0.5), power=np.int64(3), depth=np.uint8(2))
    assert (type(term.weight), type(term.power), type(term.depth)) == (float, float, int)
    assert term_from_json(json.loads(json.dumps(term.as_json())), "run.json") == term


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Error(-1.0), r"the weight -1.0 of error is not a finite number ≥ 0; 0 leaves it out"),
        (lambda: Density(math.nan), "weight=nan is not a finite number; give one"),
        (lambda: Sparse("much"), "weight='much' is not a finite number; give one"),
        (lambda: Sparse(True), "weight=True is not a finite number"),
        (lambda: Sparse(depth=2.5), "depth=2.5 is not a whole number or None; give one, or leave it out"),
        (lambda: Error(top=0), "top=0 is not positive; give at least 1"),
        (lambda: Density(warmup=-1), "warmup=-1 is negative; give 0 for none"),
        (lambda: as_loss(Error()), r"loss=Error\(.*\) is not a list of terms; give e.g. \[\*kind.default_loss"),
        (lambda: as_loss("error"), "loss='error' is not a list of terms"),
        (lambda: as_loss([Error(), 0.3]), r"0.3 in the loss is not a quadric.Term; give e.g. Density\(0.05\)"),
        (lambda: as_loss([]), "the loss has no terms, so nothing would be trained; give one, or leave it out"),
        (lambda: term_from_json({"weight": 1.0}, "run.json"), "run.json is not a term of a loss, with a name"),
        (lambda: term_from_json({"name": "error", "weight": 1.0}, "run.json"), r"run.json lacks the keys \['top'\]"),
        (
            lambda: term_from_json({"name": "theirs", "weight": 1.0}, "run.json"),
            r"run.json has the term 'theirs', which is unknown \(error, .*; if it is your own, import the module",
        ),
    ],
)
def test_mistakes_are_named_with_the_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def define(name, base=Term):
    return type("Mine", (base,), {"__module__": "theirs"} | ({} if name is None else {"name": name}))


@pytest.mark.parametrize(
    ("name", "base", "message"),
    [
        ("error", Term, "the name 'error' is that of one of Quadric's own terms; choose another"),
        (None, Error, "Mine has the name of the term that it extends, 'error', which files would restore"),
        (None, Sparse, "Mine has the name of the term that it extends, 'sparse'"),
        ("my term", Term, "name='my term' of Mine cannot name a value in reports; use letters, digits and '_'"),
        ("tokens", Term, "name='tokens' of Mine cannot name .* none of step, autoencoder, tokens"),
    ],
)
def test_a_name_that_stands_for_something_else_is_refused(name, base, message):
    before = dict(TERMS)
    with pytest.raises(ValueError, match=message):
        define(name, base)
    assert before == TERMS


def test_a_term_may_be_defined_again_and_be_made_of_nameless_parts():
    first, second = define("again"), define("again")
    assert TERMS["again"] is second is not first
    part = define(None)
    assert define("whole", part)(0.5).weight == 0.5
    with pytest.raises(ValueError, match=r"Mine has no name; give the class one, e\.g\. name = 'mine'"):
        part()
    with pytest.raises(TypeError, match=r"Mine has no __call__\(self, step\); write one"):
        second()(None)


def test_settings_and_terms_need_no_torch():
    """Flags and help are made from them at once."""
    modules = "quadric.model.terms, quadric.model.settings, quadric.train.settings"
    code = f"import sys, {modules}; print('torch' in sys.modules, {modules.split(', ')[1]}.Composite().default_loss())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.startswith("False (Error(weight=1.0, top=32), Density(")
