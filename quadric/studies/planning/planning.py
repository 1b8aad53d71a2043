"""The predicted cost of a run, before training starts: memory, disk, FLOPs and time."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from quadric._io.progress import Progress, no_progress
from quadric.model import Composite, Dictionary, Settings
from quadric.model.lens import affine_lens, token_moments
from quadric.model.settings import Bilinear
from quadric.studies.planning.costs import FormsStep, Phase, StepSize, phases
from quadric.train.learner import Learner
from quadric.train.settings import Cell, Training

STEPS = 3
FEWEST_TOKENS = 256
MOST_BYTES = 2**31
"""Memory that a step may take by prediction; larger ones are not tried."""
MOST_SECONDS = 15.0
"""Time that the matrix products of these steps may take by prediction; longer ones are not tried."""


@dataclass(frozen=True, kw_only=True)
class PhasePlan:
    """Consecutive steps of one dictionary that cost the same."""

    name: str
    first_step: int
    last_step: int
    size: StepSize
    flops_per_step: dict[str, float]
    """By what they are spent on, and in total."""
    state_bytes: int
    """Held between steps."""
    peak_bytes: int
    seconds_per_step: float
    is_measured: bool
    """Whether the time is that of real steps, or of their matrix products alone."""

    @property
    def n_steps(self) -> int:
        return self.last_step - self.first_step + 1


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """Predicted cost of training one dictionary, for one process."""

    phases: tuple[PhasePlan, ...]
    checkpoint_bytes: int
    """Disk space of all kept checkpoints at their largest, and of one more while it is being written."""
    peak_bytes: int
    flops: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Predicted cost of training several dictionaries on the same batches, for one process."""

    autoencoders: dict[str, CellPlan]
    not_modelled: tuple[str, ...]
    """Names of dictionaries of kinds from outside, whose cost is not known."""
    checkpoint_bytes: int
    peak_bytes: int
    """All dictionaries are in memory, and one at a time is trained on a batch."""
    flops: float
    seconds: float
    reading_flops_per_step: float
    """Of the language model; all dictionaries share its activations."""
    matmul_flops_per_second: float
    """What this machine does, as measured."""

    @property
    def is_measured(self) -> bool:
        """Whether every time is that of real steps."""
        return all(phase.is_measured for plan in self.autoencoders.values() for phase in plan.phases)

    def as_json(self) -> dict[str, Any]:
        """Everything; the phases of a single dictionary at the top as well."""
        plans = tuple(self.autoencoders.values())
        return ({"phases": [asdict(each) for each in plans[0].phases]} if len(plans) == 1 else {}) | asdict(self)


def plan_run(
    cells: Sequence[Cell],
    training: Training,
    *,
    d_model: int,
    batch_tokens: int,
    processes: int = 1,
    reading_flops_per_token: float = 0.0,
    on_progress: Progress = no_progress,
) -> RunPlan:
    """Plan dictionaries that are trained on the same batches.

    Args:
        cells: what is trained.
        training: number of steps and schedules.
        d_model: width of the activations.
        batch_tokens: tokens per step, over all processes.
        processes: that share every step; each of them holds all dictionaries.
        reading_flops_per_token: of the language model; 0 for stored activations.
        on_progress: called as phases are measured.

    Returns:
        The plan of each dictionary, and their total cost.
    """
    for name, value in (("d_model", d_model), ("batch_tokens", batch_tokens), ("processes", processes)):
        if value < 1:
            raise ValueError(f"{name}={value} is not positive; give at least 1")
    if batch_tokens % processes:
        raise ValueError(
            f"batch_tokens={batch_tokens} cannot be shared evenly by processes={processes}; give a multiple"
        )
    n_tokens = batch_tokens // processes
    sizes = {
        cell.name: tuple(phases(cell.settings, cell.loss, d_model, n_tokens, training.steps, processes))
        for cell in cells
    }
    if not any(sizes.values()):
        raise ValueError("the cost of no kind that was given is known; plan at least one of Quadric's own")
    different = {found: cell for cell in reversed(cells) if (found := sizes[cell.name])}
    known, rate, wanted = dict[tuple[Phase, ...], CellPlan](), matmul_rate(), sum(map(len, different))
    for found, cell in different.items():
        on_progress("measured phases", sum(map(len, known)), wanted, "")
        known[found] = _plan_cell(cell, training, found, d_model, rate)
    on_progress("measured phases", wanted, wanted, "")
    plans = {name: known[found] for name, found in sizes.items() if found}
    states = [max(phase.state_bytes for phase in plan.phases) for plan in plans.values()]
    working = max(phase.peak_bytes - phase.state_bytes for plan in plans.values() for phase in plan.phases)
    reading = reading_flops_per_token * n_tokens
    return RunPlan(
        autoencoders=plans,
        not_modelled=tuple(name for name in sizes if name not in plans),
        checkpoint_bytes=sum(plan.checkpoint_bytes for plan in plans.values()),
        peak_bytes=sum(states) + working if len(plans) > 1 else next(iter(plans.values())).peak_bytes,
        flops=sum(plan.flops for plan in plans.values()) + reading * training.steps,
        seconds=sum(plan.seconds for plan in plans.values()) + reading * training.steps / rate,
        reading_flops_per_step=reading,
        matmul_flops_per_second=rate,
    )


def _plan_cell(cell: Cell, training: Training, found: tuple[Phase, ...], d_model: int, rate: float) -> CellPlan:
    plans = tuple(_plan_phase(cell, training, phase, d_model, rate) for phase in found)
    return CellPlan(
        phases=plans,
        checkpoint_bytes=max(phase.size.checkpoint_bytes for phase in found) * (training.keep_checkpoints + 1),
        peak_bytes=max(plan.peak_bytes for plan in plans),
        flops=sum(plan.flops_per_step["total"] * plan.n_steps for plan in plans),
        seconds=sum(plan.seconds_per_step * plan.n_steps for plan in plans),
    )


def _plan_phase(cell: Cell, training: Training, phase: Phase, d_model: int, rate: float) -> PhasePlan:
    flops, size = phase.size.flops(), phase.size
    total = sum(flops.values())
    seconds = measured_seconds(cell, training, phase, d_model, rate)
    return PhasePlan(
        **phase._asdict(),
        flops_per_step=flops | {"total": total},
        state_bytes=size.state_bytes,
        peak_bytes=size.state_bytes + size.working_bytes,
        seconds_per_step=total / rate if seconds is None else seconds,
        is_measured=seconds is not None,
    )


def measured_seconds(cell: Cell, training: Training, phase: Phase, d_model: int, rate: float) -> float | None:
    """Seconds of a step of a phase on this machine's CPU; None if it is too large to be tried.

    One step warms up and two are timed, with a quarter of the tokens where there are many. The faster one stands for
    the whole step by the ratio of their FLOPs, which are linear in the tokens and say what processes share.

    Args:
        cell: what is trained.
        training: of the run.
        phase: which steps.
        d_model: width of the activations.
        rate: FLOPs per second of matrix products.
    """
    n_tokens = phase.size.n_tokens
    tried = replace(phase.size, n_processes=1, n_tokens=min(n_tokens, max(FEWEST_TOKENS, n_tokens // 4)))
    flops = sum(tried.flops().values())
    if tried.state_bytes + tried.working_bytes > MOST_BYTES or STEPS * flops > MOST_SECONDS * rate:
        return None
    learner = Learner(_dictionary(cell.settings, phase, d_model), cell.loss, training)
    learner.step_index = phase.first_step
    _, *times = (_timed(learner, torch.randn(tried.n_tokens, d_model)) for _ in range(STEPS))
    return min(times) * sum(phase.size.flops().values()) / flops


def _dictionary(settings: Settings, phase: Phase, d_model: int) -> Dictionary:
    """An untrained dictionary with as many entries as in the phase, and with weights that are quickly made."""
    if isinstance(settings, Composite) and isinstance(phase.size, FormsStep) and phase.first_step > 0:
        density = phase.size.n_entries / (settings.n_latents * settings.atoms)
        settings = replace(settings, atoms_per_latent=density * settings.atoms, initial_density=density)
    if isinstance(settings, Bilinear):
        settings = replace(settings, init="xavier")
    lens = affine_lens(token_moments(torch.randn(1024, d_model))) if settings.lens_name == "affine" else None
    return settings.build(d_model, lens=lens)


def _timed(learner: Learner, tokens: torch.Tensor) -> float:
    start = time.perf_counter()
    learner.step(tokens)
    return time.perf_counter() - start


def matmul_rate(size: int = 1536, seconds: float = 1.0) -> float:
    """FLOPs per second of float32 matrix products on the CPU: the best of as many as fit in the given time."""
    left, right, product = (torch.randn(size, size) for _ in range(3))
    torch.mm(left, right, out=product)
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(left, right, out=product)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
