"""`quadric plan`: predicted memory and time before anything is started."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from quadric.cli.flags import OptionalInt
from quadric.cli.output import say_json
from quadric.cli.scale_flags import ScaleFlags
from quadric.cli.train import Output
from quadric.data.settings import ActivationConfig

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.data.model_cost import ReadingCost
    from quadric.run.planning import CombinedPlan
    from quadric.run.scales import Scale
    from quadric.train.plan import RunPlan
    from quadric.train.timing import StepWork

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


@dataclass(frozen=True, kw_only=True)
class Planning:
    """What is planned beyond the flags of train."""

    d_model: OptionalInt = None
    """Width of the activations, for training on tensors of your own; no language model is read then."""
    batch_tokens: OptionalInt = None
    """Tokens per step over all processes; by default --sequences-per-step times --block-length."""
    processes: int = 1
    """Processes that share every step (torchrun)."""
    json: bool = False
    """Print everything as JSON."""


@dataclass(frozen=True, kw_only=True)
class Plan(ScaleFlags):
    """Predict memory, operations, disk and time of a training run; nothing is trained and no weights are read.

    Takes the flags of quadric train. Several autoencoders get one table each (equal ones share a table), followed by
    what they need together.

    Example: quadric plan --model smollm2 --layer 15 --n-latents 1152 --steps 200
             quadric plan --recipe paper --d-model 1024 --processes 4
             quadric plan --layers 9,15 --prior atomic composite --seeds 0 1 2
    """

    output: Annotated[Output, tyro.conf.OmitArgPrefixes] = field(default_factory=Output)
    """As in quadric train; of these only --cache makes a difference to the plan."""
    planning: Annotated[Planning, tyro.conf.OmitArgPrefixes] = field(default_factory=Planning)
    """What is planned beyond the flags of quadric train."""

    def run(self) -> int:
        from quadric._io.terminal import safe_console
        from quadric.train.machine import matmul_rate
        from quadric.train.timing import measure_rates

        self._check()
        reading = self._reading()
        width = reading.d_model if reading is not None else self._width()
        plan = self._plan(width, reading)
        rate = matmul_rate()
        large = plan.product_space_size
        rates = None if large is None else measure_rates(large)
        if self.planning.json:
            say_json(_as_json(plan, width, rate, rates, reading))
            return 0
        console = safe_console()
        for title, each in _different(plan).items():
            console.print(_table(title, each, rate, rates))
        console.print(_account(plan, reading, rate, rates, self.planning.processes), highlight=False)
        return 0

    def _check(self) -> None:
        given = self.model.given(ActivationConfig)
        if self.output.resume is not None:
            raise ValueError("--resume cannot be planned: a plan is about a run that has not started; leave it out")
        self.refuse_ignored()
        contradicting = [f"--{flag}" for flag, name in (("model", "model"), ("layers", "hook_points")) if name in given]
        if self.output.cache is not None:
            contradicting.append("--cache")
        if self.planning.d_model is not None and contradicting:
            raise ValueError(
                f"--d-model {self.planning.d_model} and {', '.join(contradicting)} contradict each other: the width "
                "follows from the model or the cache; give one or the other"
            )

    def _reading(self) -> "ReadingCost | None":
        """The language model's part, unless activations are stored or the user's own."""
        if self.output.cache is not None or self.planning.d_model is not None:
            return None
        from quadric.data.model_cost import reading_cost
        from quadric.data.models import find_model

        config = self.activation_config()
        source = find_model(config.model, config.model_revision)
        return reading_cost(source, config.hook_points, config.corpus.block_length)

    def _width(self) -> int:
        if self.planning.d_model is not None:
            return self.planning.d_model
        from quadric.data import ActivationCache

        assert self.output.cache is not None
        return ActivationCache(self.output.cache).manifest.layout.d_model

    def _plan(self, width: int, reading: "ReadingCost | None") -> "CombinedPlan":
        from quadric.run.planning import plan_autoencoders
        from quadric.run.recipes import autoencoders, training_config

        scale, config = self.scale(), self.activation_config()
        layers = tuple(config.hook_points.split(",")) if self.planning.d_model is None else ("rows",)
        return plan_autoencoders(
            autoencoders(layers, scale, self.grid()),
            training_config(scale),
            d_model=width,
            batch_tokens=self._batch_tokens(scale, config),
            processes=self.planning.processes,
            reading_flops_per_token=0.0 if reading is None else reading.flops_per_token,
        )

    def _batch_tokens(self, scale: "Scale", config: ActivationConfig) -> int:
        given = self.planning.batch_tokens
        return scale.sequences_per_step * config.corpus.block_length if given is None else given


def _as_json(
    plan: "CombinedPlan", width: int, rate: float, rates: "StepWork | None", reading: "ReadingCost | None"
) -> dict[str, Any]:
    """The phases stand at the top as well if there is only one autoencoder."""
    plans = list(plan.plans.values())
    return {
        **(plans[0].as_json() if len(plans) == 1 else {}),
        **plan.as_json(),
        "d_model": width,
        "matmul_flops_per_second": rate,
        "work_per_second": None if rates is None else rates._asdict(),
        "seconds": plan.seconds(rate, rates),
        "language_model_flops_per_token": 0.0 if reading is None else reading.flops_per_token,
    }


def _different(plan: "CombinedPlan") -> "dict[str, RunPlan]":
    """One plan for all autoencoders that cost the same, under a title that counts them."""
    alike: dict[str, list[str]] = {}
    for name, each in plan.plans.items():
        alike.setdefault(repr(each), []).append(name)
    found = {}
    for first, *others in alike.values():
        title = f"{first} and {len(others)} more that cost the same" if others else first
        found[title] = plan.plans[first]
    return found


def _table(title: str, plan: "RunPlan", rate: float, rates: "StepWork | None") -> "Table":
    from rich.table import Table

    headings = (f"{e.phase.name}, steps {e.phase.first_step}–{e.phase.last_step}" for e in plan.phases)
    table = Table("per step", *headings, title=title, title_justify="left", min_width=min(len(title), 78))
    for part in plan.phases[0].flops._fields:
        table.add_row(f"{part}, FLOPs", *(_counted(getattr(each.flops, part)) for each in plan.phases))
    table.add_row("total, FLOPs", *(_counted(each.flops.total) for each in plan.phases), end_section=True)
    if plan.has_work:
        table.add_row("time", *(f"{each.seconds(rate, rates):.1f} s" for each in plan.phases), end_section=True)
    table.add_row("memory kept", *(_bytes(each.memory.state) for each in plan.phases))
    table.add_row("peak memory", *(_bytes(each.memory.peak) for each in plan.phases))
    return table


def _account(
    plan: "CombinedPlan", reading: "ReadingCost | None", rate: float, rates: "StepWork | None", processes: int
) -> str:
    each = " in each process" if processes > 1 else ""
    subject = "Training" if len(plan.plans) == 1 else f"Training all {len(plan.plans)} autoencoders together"
    lines = [
        f"{subject} takes up to {_bytes(plan.peak_bytes)}{each}; checkpoints up to {_bytes(plan.checkpoint_bytes)}."
    ]
    if plan.not_modelled:
        lines.append(f"Not included, because their cost is not predicted: {', '.join(plan.not_modelled)}.")
    if reading is not None:
        lines.append(
            f"The language model runs {reading.n_layers} layers: {_counted(reading.flops_per_token)}FLOPs per token, "
            f"{_counted(plan.reading_flops_per_step)}FLOPs per step{each}; its weights take another "
            f"{_bytes(reading.weight_bytes)} in float32."
        )
    if rates is not None:
        lines.append(
            f"The run takes {_counted(plan.flops)}FLOPs{each}, and {_duration(plan.seconds(rate, rates))}: steps in "
            "the product space by all their work, at rates just measured on this machine's CPU, others by their matrix "
            "products alone. Every step of a phase is counted as its most expensive one."
        )
        return "\n".join(lines)
    lines.append(
        f"The run takes {_counted(plan.flops)}FLOPs{each}: {_duration(plan.flops / rate)} at the "
        f"{_counted(rate)}FLOP/s of float32 matrix products just measured on this machine's CPU. No run consists of "
        "matrix products only, so expect more; every step of a phase is counted as its most expensive one."
    )
    return "\n".join(lines)


def _counted(number: float) -> str:
    scale, unit = next((s, u) for s, u in UNITS if number >= s or s == 1.0)
    return f"{number / scale:.3g} {unit}"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
