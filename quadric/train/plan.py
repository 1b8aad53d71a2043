"""The predicted cost of a whole run, before it starts."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from quadric.train.config import AutoencoderConfig, TrainingConfig
from quadric.train.cost import Phase, StepFlops, StepMemory, checkpoint_bytes, phases, step_flops, step_memory
from quadric.train.timing import StepWork, lifted_work


class PhaseCost(NamedTuple):
    """A phase, and the cost of each of its steps per process."""

    phase: Phase
    flops: StepFlops
    memory: StepMemory

    @property
    def n_steps(self) -> int:
        return self.phase.last_step - self.phase.first_step + 1

    @property
    def work(self) -> StepWork | None:
        """All work of a step, if it is computed in the product space; elsewhere only FLOPs are counted."""
        return lifted_work(self.phase.size) if self.phase.size.error_path == "lifted" else None

    def seconds(self, rate: float, rates: StepWork | None = None) -> float:
        """Time of a step: of all its work, if there are rates for it, or of its products at `rate` FLOPs per second."""
        work = self.work
        return self.flops.total / rate if work is None or rates is None else work.seconds(rates)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Predicted cost of training one autoencoder."""

    phases: list[PhaseCost]
    checkpoint_bytes: int
    """Disk space of all kept checkpoints at their largest, plus one more while it is being written."""
    reading_flops_per_step: float
    """FLOPs of the language model per step and process."""

    @property
    def peak_bytes(self) -> int:
        return max(each.memory.peak for each in self.phases)

    @property
    def flops(self) -> float:
        """FLOPs of the whole run per process."""
        return sum((each.flops.total + self.reading_flops_per_step) * each.n_steps for each in self.phases)

    @property
    def has_work(self) -> bool:
        """Whether there are steps whose time is that of all their work."""
        return any(each.work is not None for each in self.phases)

    def seconds(self, rate: float, rates: StepWork | None = None) -> float:
        """Time of the run if all products ran at `rate` FLOPs per second, or steps in the product space at `rates`."""
        reading = self.reading_flops_per_step / rate
        return sum((each.seconds(rate, rates) + reading) * each.n_steps for each in self.phases)

    def as_json(self) -> dict[str, Any]:
        return {
            "phases": [
                {
                    "name": each.phase.name,
                    "first_step": each.phase.first_step,
                    "last_step": each.phase.last_step,
                    "size": asdict(each.phase.size),
                    "flops_per_step": each.flops._asdict() | {"total": each.flops.total},
                    "memory_bytes": each.memory._asdict() | {"peak": each.memory.peak},
                }
                for each in self.phases
            ],
            "checkpoint_bytes": self.checkpoint_bytes,
            "reading_flops_per_step": self.reading_flops_per_step,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
        }


def plan_run(
    config: AutoencoderConfig,
    training: TrainingConfig,
    d_model: int,
    batch_tokens: int,
    processes: int = 1,
    reading_flops_per_token: float = 0.0,
) -> RunPlan:
    """The plan of one autoencoder.

    Every process gets its part of the batch and of the work on the kernel and Muon, and holds the whole autoencoder.
    """
    if batch_tokens < 1 or processes < 1:
        raise ValueError(f"batch_tokens={batch_tokens} and processes={processes} must be at least 1")
    if batch_tokens % processes:
        raise ValueError(
            f"batch_tokens={batch_tokens} cannot be shared evenly by processes={processes}; give a multiple"
        )
    own_tokens = batch_tokens // processes
    found = phases(config, d_model, own_tokens, training.steps, processes)
    costs = [PhaseCost(phase, step_flops(phase.size), step_memory(phase.size)) for phase in found]
    largest = max(checkpoint_bytes(phase.size) for phase in found)
    return RunPlan(
        phases=costs,
        checkpoint_bytes=largest * (training.keep_checkpoints + 1),
        reading_flops_per_step=reading_flops_per_token * own_tokens,
    )
