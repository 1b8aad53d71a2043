"""Metrics are written once per step to the file, TensorBoard and Weights & Biases."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from quadric.run.telemetry import open_sinks, read_metrics
from quadric.train import Learner


def after(step, **report):
    """A learner after a step, as far as sinks look at it."""
    learner = object.__new__(Learner)
    learner.name, learner.step_index, learner.report = "a", step, report
    return learner


def test_a_resumed_run_drops_metrics_of_steps_that_it_repeats(tmp_path):
    with open_sinks(tmp_path, 0, tensorboard=False, wandb_project=None) as sinks:
        for step in (1, 2, 3):
            sinks[0](after(step, error=step / 10, mine=0.5))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "err')
    with open_sinks(tmp_path, 2, tensorboard=False, wandb_project=None) as sinks:
        sinks[0](after(3, error=0.9))
    assert [(line["step"], line["error"]) for line in read_metrics(tmp_path)] == [(1, 0.1), (2, 0.2), (3, 0.9)]
    assert read_metrics(tmp_path)[0] == {"step": 1, "autoencoder": "a", "error": 0.1, "mine": 0.5}


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_metrics_that_never_end_are_refused_instead_of_waited_for(kind, tmp_path):
    path = tmp_path / "metrics.jsonl"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is not a regular file"):
        read_metrics(tmp_path)


def test_tensorboard_draws_each_step_once_after_a_resume(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for resumed_at, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        with open_sinks(tmp_path, resumed_at, tensorboard=True, wandb_project=None) as sinks:
            for step in steps:
                sinks[1](after(step, error=step + resumed_at / 10))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    drawn = [(event.step, round(event.value, 3)) for event in events.Scalars("error/a")]
    assert drawn == [(1, 1.0), (2, 2.0), (3, 3.2), (4, 4.2)]


def test_weights_and_biases_continues_the_same_run_after_a_resume(tmp_path, monkeypatch):
    calls, logged = [], []
    run = SimpleNamespace(log=lambda values, step: logged.append((step, values)), finish=lambda: calls.append("finish"))
    stand_in = ModuleType("wandb")
    stand_in.init = lambda **given: calls.append(given) or run
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    with open_sinks(tmp_path, 0, tensorboard=False, wandb_project="shapes") as sinks:
        sinks[1](after(1, error=0.5, mine=2.0))
    assert calls[0] | {"dir": None} == {
        "project": "shapes",
        "name": tmp_path.name,
        "id": tmp_path.name,
        "resume": "allow",
        "dir": None,
    }
    assert calls[-1] == "finish"
    assert logged == [(1, {"a/error": 0.5, "a/mine": 2.0})]


def test_a_missing_package_is_an_error_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with (
        pytest.raises(ValueError, match=r"pip install 'quadric\[wandb\]'"),
        open_sinks(tmp_path, 0, tensorboard=False, wandb_project="shapes"),
    ):
        pass
