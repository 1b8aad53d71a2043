"""A whole run's plan adds up, and the time of a step is that of real ones, where these are small enough."""

import json
from dataclasses import replace
from typing import Any

import pytest

from quadric import Atomic, Composite, Quadratic, TopK, Training
from quadric.model.settings import Settings
from quadric.studies.planning import planning
from quadric.studies.planning.costs import Phase, phases
from quadric.studies.planning.planning import RunPlan, matmul_rate, measured_seconds, plan_run
from quadric.train import Cell, Learner

TRAINING, SHORT = Training(steps=300), Training(steps=40)
RATE = 1e10
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


def phases_of(cell: Cell, n_tokens: int, n_processes: int = 1) -> list[Phase]:
    return phases(cell.settings, cell.loss, 16, n_tokens, SHORT.steps, n_processes)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """Tokens, number and density of C of every step that is taken; the clock runs a second and one per 100 tokens."""
    taken: list[tuple[int, int, float]] = []
    now = [0.0]
    step = Learner.step

    def counted(learner: Learner, batch: object) -> object:
        density = getattr(learner.dictionary, "mixing_density", 0.0)
        taken.append((len(batch), learner.step_index, density))  # type: ignore[arg-type]
        now[0] += 1 + len(batch) / 100  # type: ignore[arg-type]
        return step(learner, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(Learner, "step", counted)
    monkeypatch.setattr(planning.time, "perf_counter", lambda: now[0])
    return taken


def flops(phase: Phase) -> float:
    return sum(phase.size.flops().values())


def test_a_quarter_of_many_tokens_is_extrapolated_by_the_operations(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Atomic(n_latents=32))
    ((phase,), (quarter,)) = phases_of(cell, 4096), phases_of(cell, 1024)
    expected = (1 + 10.24) * flops(phase) / flops(quarter)
    assert measured_seconds(cell, SHORT, phase, 16, RATE) == pytest.approx(expected)
    assert [tokens for tokens, _, _ in steps] == [1024] * 3


def test_few_tokens_need_no_extrapolation(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=TopK(n_latents=32))
    (phase,) = phases_of(cell, 200)
    assert measured_seconds(cell, SHORT, phase, 16, RATE) == pytest.approx(1 + 2.0)
    assert [tokens for tokens, _, _ in steps] == [200] * 3


def test_every_phase_is_measured_with_its_own_density(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Composite(n_latents=256, atoms_per_latent=1))
    dense, sparse = phases_of(cell, 64)
    for phase in (dense, sparse):
        assert measured_seconds(cell, SHORT, phase, 16, RATE) is not None
    assert [index for _, index, _ in steps] == [0, 1, 2, *range(sparse.first_step, sparse.first_step + 3)]
    assert min(density for _, _, density in steps[:3]) > 0.5
    assert {round(density * 512) for _, _, density in steps[3:]} == {1}


def test_what_processes_share_follows_from_the_operations(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Quadratic(n_latents=64))
    (alone,), (shared,) = phases_of(cell, 200), phases_of(cell, 200, 2)
    one, two = (measured_seconds(cell, SHORT, phase, 16, RATE) for phase in (alone, shared))
    assert one == pytest.approx(3.0)
    assert two == pytest.approx(3.0 * flops(shared) / flops(alone))
    assert two < one


@pytest.mark.parametrize(
    "settings", [Composite(n_latents=8192, initial_density=1.0), Atomic(n_latents=16_000)], ids=str
)
def test_a_step_that_takes_too_much_memory_is_not_tried(
    settings: Settings, steps: list[tuple[int, int, float]]
) -> None:
    cell = Cell(settings=settings)
    phase = phases_of(cell, 512)[0]
    assert measured_seconds(cell, SHORT, phase, 16, 1e18) is None
    assert steps == []


def test_a_step_that_takes_too_long_is_not_tried(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Atomic(n_latents=32))
    (phase,) = phases_of(cell, 300)
    assert measured_seconds(cell, SHORT, phase, 16, 1e5) is None
    assert measured_seconds(cell, replace(SHORT, steps=50), phase, 16, 1e9) is not None


def test_the_rate_of_this_machine_is_a_rate() -> None:
    assert 1e6 < matmul_rate(64, 0.01) < 1e16
