"""The predicted total cost of a run's autoencoders, before training starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quadric.train import AutoencoderConfig, TrainingConfig
from quadric.train.cost import StepSize
from quadric.train.plan import RunPlan, plan_run
from quadric.train.timing import StepWork


@dataclass(frozen=True, kw_only=True)
class CombinedPlan:
    """Predicted cost of training several autoencoders on the same batches."""

    plans: dict[str, RunPlan]
    """Plans keyed by the name of the autoencoder."""
    not_modelled: tuple[str, ...]
    """Names of the linear baselines, whose cost is not predicted."""
    reading_flops_per_step: float
    """FLOPs of the language model per step and process; all autoencoders share its activations."""

    @property
    def peak_bytes(self) -> int:
        """Peak memory: all autoencoders are in memory, and one at a time is trained on a batch."""
        kept = [max(each.memory.state for each in plan.phases) for plan in self.plans.values()]
        working = [max(each.memory.working for each in plan.phases) for plan in self.plans.values()]
        return self._first.peak_bytes if len(self.plans) == 1 else sum(kept) + max(working)

    @property
    def checkpoint_bytes(self) -> int:
        return sum(plan.checkpoint_bytes for plan in self.plans.values())

    @property
    def flops(self) -> float:
        """FLOPs of the whole run, for one process."""
        n_steps = sum(each.n_steps for each in self._first.phases)
        own = sum(each.flops.total * each.n_steps for plan in self.plans.values() for each in plan.phases)
        return own + self.reading_flops_per_step * n_steps

    @property
    def product_space_size(self) -> StepSize | None:
        """The largest step that is computed in the product space, where rates are measured."""
        sizes = [each.phase.size for plan in self.plans.values() for each in plan.phases if each.work is not None]
        return max(sizes, key=lambda size: size.n_hidden, default=None)

    def seconds(self, rate: float, rates: StepWork | None = None) -> float:
        """Time of the whole run, for one process.

        Args:
            rate: FLOPs per second of matrix products.
            rates: Of all work of steps in the product space (`quadric.train.timing.measure_rates`).
        """
        own = sum(each.seconds(rate, rates) * each.n_steps for plan in self.plans.values() for each in plan.phases)
        return own + self.reading_flops_per_step * sum(each.n_steps for each in self._first.phases) / rate

    @property
    def _first(self) -> RunPlan:
        return next(iter(self.plans.values()))

    def as_json(self) -> dict[str, Any]:
        """The totals, and the plan of each autoencoder."""
        return {
            "autoencoders": {name: plan.as_json() for name, plan in self.plans.items()},
            "not_modelled": list(self.not_modelled),
            "checkpoint_bytes": self.checkpoint_bytes,
            "reading_flops_per_step": self.reading_flops_per_step,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
        }


def plan_autoencoders(
    autoencoders: Sequence[AutoencoderConfig],
    training: TrainingConfig,
    *,
    d_model: int,
    batch_tokens: int,
    processes: int = 1,
    reading_flops_per_token: float = 0.0,
) -> CombinedPlan:
    """Plan autoencoders that are trained on the same batches.

    Args:
        autoencoders: Autoencoders to train; linear baselines are listed, but their cost is not predicted.
        training: Number of steps and schedules.
        d_model: Width of the activations.
        batch_tokens: Tokens per step, over all processes.
        processes: Processes that share every step; each of them holds all autoencoders.
        reading_flops_per_token: FLOPs per token of the language model; 0 for stored activations.

    Returns:
        The plan of each bilinear autoencoder, and their total cost.
    """
    if d_model < 1:
        raise ValueError(f"d_model={d_model} is not positive; give the width of the activations")
    bilinear = [each for each in autoencoders if each.kind == "bilinear"]
    if not bilinear:
        raise ValueError("the cost of linear baselines is not predicted; plan at least one bilinear prior")
    plans = {
        each.name: plan_run(each, training, d_model, batch_tokens, processes, reading_flops_per_token)
        for each in bilinear
    }
    return CombinedPlan(
        plans=plans,
        not_modelled=tuple(each.name for each in autoencoders if each.kind != "bilinear"),
        reading_flops_per_step=reading_flops_per_token * (batch_tokens // processes),
    )
