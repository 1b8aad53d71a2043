"""`quadric plan`: predicted memory and time before anything is started."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from quadric.cli.flags import OptionalInt
from quadric.cli.output import say_json
from quadric.cli.run_flags import RunFlags
from quadric.cli.train import Output
from quadric.data.settings import ActivationConfig
from quadric.run.recipes import cells

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.data.forward import ReadingCost
    from quadric.run.planning import CellPlan, RunPlan

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
class Plan(RunFlags):
    """Predict memory, operations, disk and time of a training run; nothing is trained and no weights are read.

    Takes the flags of quadric train. Several dictionaries get one table each (equal ones share a table), followed by
    what they need together. Times are those of a few real steps on random tokens, where these are small.

    Example: quadric plan --model smollm2 --layer 15 --n-latents 1152 --steps 200
             quadric plan --recipe paper --d-model 1024 --processes 4
             quadric plan --layers 9,15 --prior atomic composite quadratic --seeds 0 1 2
    """

    shown_first: ClassVar[tuple[str, ...]] = (
        *(name for name in RunFlags.shown_first if name not in ("device", "out", "resume")),
        "d_model", "batch_tokens", "processes", "json",
    )  # fmt: skip

    output: Annotated[Output, tyro.conf.OmitArgPrefixes] = field(default_factory=Output)
    """As in quadric train; of these only --cache makes a difference to the plan."""
    planning: Annotated[Planning, tyro.conf.OmitArgPrefixes] = field(default_factory=Planning)
    """What is planned beyond the flags of quadric train."""

    def run(self) -> int:
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.run.planning import plan_run

        self._check()
        reading = self._reading()
        width = reading.d_model if reading is not None else self._width()
        with progress() as display:
            plan = plan_run(
                **self._asked(),
                d_model=width,
                reading_flops_per_token=0.0 if reading is None else reading.flops_per_token,
                on_progress=display.report,
            )
        if self.planning.json:
            per_token = 0.0 if reading is None else reading.flops_per_token
            say_json(plan.as_json() | {"d_model": width, "language_model_flops_per_token": per_token})
            return 0
        console = safe_console()
        for title, each in _different(plan).items():
            console.print(_table(title, each))
        console.print(_account(plan, reading, self.planning.processes), highlight=False)
        return 0

    def _check(self) -> None:
        given = self.model.given(ActivationConfig)
        if self.output.resume is not None:
            raise ValueError("--resume cannot be planned: a plan is about a run that has not started; leave it out")
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
        from quadric.data.forward import reading_cost
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

    def _asked(self) -> dict[str, Any]:
        """Arguments of `plan_run` that follow from the flags alone."""
        recipe, config, kinds = self.recipe(), self.activation_config(), self.combined().kinds
        layers = config.hook_points.split(",") if self.planning.d_model is None else ["rows"]
        tokens = self.planning.batch_tokens
        return {
            "cells": cells(layers, kinds, recipe=recipe, **self.changes(kinds)),
            "training": recipe.training,
            "batch_tokens": recipe.sequences_per_step * config.corpus.block_length if tokens is None else tokens,
            "processes": self.planning.processes,
        }


def _different(plan: "RunPlan") -> "dict[str, CellPlan]":
    """One plan for all dictionaries that cost the same, under a title that counts them."""
    alike: dict[str, list[str]] = {}
    for name, each in plan.autoencoders.items():
        alike.setdefault(repr(each), []).append(name)
    return {
        f"{first} and {len(others)} more that cost the same" if others else first: plan.autoencoders[first]
        for first, *others in alike.values()
    }


def _table(title: str, plan: "CellPlan") -> "Table":
    from rich.table import Table

    headings = (f"{each.name}, steps {each.first_step}–{each.last_step}" for each in plan.phases)
    table = Table("per step", *headings, title=title, title_justify="left", min_width=min(len(title), 78))
    for part in (parts := plan.phases[0].flops_per_step):
        values = (_counted(each.flops_per_step[part]) for each in plan.phases)
        table.add_row(f"{part}, FLOPs", *values, end_section=part == list(parts)[-1])
    times = (_duration(each.seconds_per_step) + ", products alone" * (not each.is_measured) for each in plan.phases)
    table.add_row("time", *times, end_section=True)
    table.add_row("memory kept", *(_bytes(each.state_bytes) for each in plan.phases))
    table.add_row("peak memory", *(_bytes(each.peak_bytes) for each in plan.phases))
    return table


def _account(plan: "RunPlan", reading: "ReadingCost | None", processes: int) -> str:
    each = " in each process" if processes > 1 else ""
    n_planned, rate = len(plan.autoencoders), plan.matmul_flops_per_second
    subject = "Training" if n_planned == 1 else f"Training all {n_planned} dictionaries together"
    lines = [
        f"{subject} takes up to {_bytes(plan.peak_bytes)}{each}; checkpoints up to {_bytes(plan.checkpoint_bytes)}."
    ]
    if plan.not_modelled:
        lines.append(f"Not included, because their cost is not known: {', '.join(plan.not_modelled)}.")
    if reading is not None:
        lines.append(
            f"The language model runs {reading.n_layers} layers: {_counted(reading.flops_per_token)}FLOPs per token, "
            f"{_counted(plan.reading_flops_per_step)}FLOPs per step{each}; its weights take another "
            f"{_bytes(reading.weight_bytes)} in float32."
        )
    how = "by a few real steps just measured on this machine's CPU"
    if not plan.is_measured:
        how += (
            "; steps that are too large to be tried count by their matrix products alone, at "
            f"{_counted(rate)}FLOP/s in float32, so expect more"
        )
    lines.append(
        f"The run takes {_counted(plan.flops)}FLOPs{each}, and {_duration(plan.seconds)} {how}. Every step of a phase "
        "is counted as its most expensive one."
    )
    return "\n".join(lines)


def _counted(number: float) -> str:
    scale, unit = next((s, u) for s, u in UNITS if number >= s or s == 1.0)
    return f"{number / scale:.3g} {unit}"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    units = ((7200, 3600, "h"), (120, 60, "min"), (1, 1, "s"), (0, 0.001, "ms"))
    scale, unit = next((scale, unit) for least, scale, unit in units if seconds >= least)
    return f"{seconds / scale:.3g} {unit}"
