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
    from quadric.data.forward import ReadingCost


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
    d_model: OptionalInt = None
    """Width of the activations, for training on tensors of your own; no language model is read then."""
    batch_tokens: OptionalInt = None
    """Tokens per step over all processes; by default --sequences-per-step times --block-length."""
    processes: int = 1
    """Processes that share every step (torchrun)."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.planning.planning import plan_run
        from quadric.studies.planning.terminal import account, tables

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
        if self.json:
            per_token = 0.0 if reading is None else reading.flops_per_token
            say_json(plan.as_json() | {"d_model": width, "language_model_flops_per_token": per_token})
            return 0
        console = safe_console()
        for table in tables(plan):
            console.print(table)
        console.print(account(plan, reading, self.processes), highlight=False)
        return 0

    def _check(self) -> None:
        given = self.model.given(ActivationConfig)
        if self.output.resume is not None:
            raise ValueError("--resume cannot be planned: a plan is about a run that has not started; leave it out")
        contradicting = [f"--{flag}" for flag, name in (("model", "model"), ("layers", "hook_points")) if name in given]
        if self.output.cache is not None:
            contradicting.append("--cache")
        if self.d_model is not None and contradicting:
            raise ValueError(
                f"--d-model {self.d_model} and {', '.join(contradicting)} contradict each other: the width "
                "follows from the model or the cache; give one or the other"
            )

    def _reading(self) -> "ReadingCost | None":
        """The language model's part, unless activations are stored or the user's own."""
        if self.output.cache is not None or self.d_model is not None:
            return None
        from quadric.data.forward import reading_cost
        from quadric.data.models import find_model

        config = self.activation_config()
        source = find_model(config.model, config.model_revision)
        return reading_cost(source, config.hook_points, config.corpus.block_length)

    def _width(self) -> int:
        if self.d_model is not None:
            return self.d_model
        from quadric.data import ActivationCache

        assert self.output.cache is not None
        return ActivationCache(self.output.cache).manifest.layout.d_model

    def _asked(self) -> dict[str, Any]:
        """Arguments of `plan_run` that follow from the flags alone."""
        recipe, config, kinds = self.recipe(), self.activation_config(), self.combined().kinds
        layers = config.hook_points.split(",") if self.d_model is None else ["rows"]
        tokens = self.batch_tokens
        return {
            "cells": cells(layers, kinds, recipe=recipe, **self.changes(kinds)),
            "training": recipe.training,
            "batch_tokens": recipe.sequences_per_step * config.corpus.block_length if tokens is None else tokens,
            "processes": self.processes,
        }
