"""The time of a step is that of real ones, where these are small enough."""

from dataclasses import replace

import pytest

from quadric import Atomic, Composite, Quadratic, TopK, Training
from quadric.model.settings import Settings
from quadric.train import Cell, Learner
from quadric.train import timing as module
from quadric.train.cost import Phase, phases
from quadric.train.machine import matmul_rate
from quadric.train.timing import measured_seconds

TRAINING = Training(steps=40)
RATE = 1e10


def phases_of(cell: Cell, n_tokens: int, n_processes: int = 1) -> list[Phase]:
    return phases(cell.settings, cell.loss, 16, n_tokens, TRAINING.steps, n_processes)


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
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return taken


def flops(phase: Phase) -> float:
    return sum(phase.size.flops().values())


def test_a_quarter_of_many_tokens_is_extrapolated_by_the_operations(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Atomic(n_latents=32))
    ((phase,), (quarter,)) = phases_of(cell, 4096), phases_of(cell, 1024)
    expected = (1 + 10.24) * flops(phase) / flops(quarter)
    assert measured_seconds(cell, TRAINING, phase, 16, RATE) == pytest.approx(expected)
    assert [tokens for tokens, _, _ in steps] == [1024] * 3


def test_few_tokens_need_no_extrapolation(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=TopK(n_latents=32))
    (phase,) = phases_of(cell, 200)
    assert measured_seconds(cell, TRAINING, phase, 16, RATE) == pytest.approx(1 + 2.0)
    assert [tokens for tokens, _, _ in steps] == [200] * 3


def test_every_phase_is_measured_with_its_own_density(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Composite(n_latents=256, atoms_per_latent=1))
    dense, sparse = phases_of(cell, 64)
    for phase in (dense, sparse):
        assert measured_seconds(cell, TRAINING, phase, 16, RATE) is not None
    assert [index for _, index, _ in steps] == [0, 1, 2, *range(sparse.first_step, sparse.first_step + 3)]
    assert min(density for _, _, density in steps[:3]) > 0.5
    assert {round(density * 512) for _, _, density in steps[3:]} == {1}


def test_what_processes_share_follows_from_the_operations(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Quadratic(n_latents=64))
    (alone,), (shared,) = phases_of(cell, 200), phases_of(cell, 200, 2)
    one, two = (measured_seconds(cell, TRAINING, phase, 16, RATE) for phase in (alone, shared))
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
    assert measured_seconds(cell, TRAINING, phase, 16, 1e18) is None
    assert steps == []


def test_a_step_that_takes_too_long_is_not_tried(steps: list[tuple[int, int, float]]) -> None:
    cell = Cell(settings=Atomic(n_latents=32))
    (phase,) = phases_of(cell, 300)
    assert measured_seconds(cell, TRAINING, phase, 16, 1e5) is None
    assert measured_seconds(cell, replace(TRAINING, steps=50), phase, 16, 1e9) is not None


def test_the_rate_of_this_machine_is_a_rate() -> None:
    assert 1e6 < matmul_rate(64, 0.01) < 1e16
