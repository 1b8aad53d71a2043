"""A whole run's plan adds up."""

import json
from typing import Any

import pytest

from quadric import Atomic, Composite, Quadratic, TopK, Training
from quadric.run import planning
from quadric.run.planning import RunPlan, plan_run
from quadric.train import Cell

TRAINING = Training(steps=300)
SMALL = Composite(n_latents=64, n_hidden=128, atoms_per_latent=1, lens="paper")


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "matmul_rate", lambda: 1e6)
    monkeypatch.setattr(planning, "measured_seconds", lambda *_: None)


def plan(*cells: Cell, **more: Any) -> RunPlan:
    return plan_run(cells, TRAINING, **{"d_model": 32, "batch_tokens": 256, **more})


def test_the_run_is_the_sum_of_its_steps() -> None:
    made = plan(Cell(settings=SMALL), reading_flops_per_token=10.0)
    ((name, own),) = made.autoencoders.items()
    assert name == Cell(settings=SMALL).name
    assert [phase.name for phase in own.phases] == ["dense C", "sparse C"]
    assert sum(phase.n_steps for phase in own.phases) == 300
    assert own.flops == pytest.approx(sum(phase.n_steps * phase.flops_per_step["total"] for phase in own.phases))
    assert made.flops == pytest.approx(own.flops + 300 * 2560)
    assert made.seconds == pytest.approx(made.flops / 1e6)
    assert made.peak_bytes == max(phase.peak_bytes for phase in own.phases)
    assert not made.is_measured
    assert json.loads(json.dumps(made.as_json()))["phases"][1]["size"]["storage"] == "sparse"


def test_measured_times_are_used_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "measured_seconds", lambda *_: 0.5)
    made = plan(Cell(settings=SMALL))
    assert made.is_measured
    assert made.seconds == pytest.approx(150)


def test_dictionaries_are_trained_one_at_a_time_and_equal_ones_are_planned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(planning, "measured_seconds", lambda cell, *_: measured.append(cell.name))
    kinds = (Atomic(n_latents=64), Quadratic(n_latents=64), TopK(n_latents=64))
    cells = [Cell(settings=settings, seed=seed) for settings in kinds for seed in (0, 1)]
    progress: list[tuple[str, int, int, str]] = []
    together = plan(*cells, on_progress=lambda *state: progress.append(state))
    alone = [plan(cell) for cell in cells]
    assert progress == [("measured phases", done, 3, "") for done in range(4)]
    assert sorted(measured[:3]) == sorted(cell.name for cell in cells[::2])
    assert together.flops == pytest.approx(sum(each.flops for each in alone))
    assert together.checkpoint_bytes == sum(each.checkpoint_bytes for each in alone)
    assert max(each.peak_bytes for each in alone) < together.peak_bytes < sum(each.peak_bytes for each in alone)


def test_all_kept_checkpoints_and_one_more_are_counted() -> None:
    made = plan(Cell(settings=Atomic(n_latents=64, lens="paper")))
    assert made.checkpoint_bytes == (TRAINING.keep_checkpoints + 1) * 4 * (4 * 64 * 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_tokens": 0}, "batch_tokens=0 is not positive"),
        ({"processes": 0}, "processes=0 is not positive"),
        ({"d_model": 0}, "d_model=0 is not positive"),
        ({"batch_tokens": 10, "processes": 4}, "cannot be shared evenly by processes=4"),
    ],
)
def test_impossible_shares_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(Cell(settings=SMALL), **changes)
