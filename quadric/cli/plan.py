"""`quadric plan`: predicted memory and time before anything is started."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.activations.model_cost import ReadingCost
    from quadric.training.plan import RunPlan

UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Predict memory, operations, disk and time of a training run; nothing is trained and no weights are read.

    Example: quadric plan --model smollm2 --layer 15 --n-latents 1152 --batch-tokens 4096 --steps 200
    """

    model: str | None = None
    """Language model that is read: a hub id, a folder, a .gguf file, or the embedded smollm2."""
    layer: str | None = None
    """Hook point in it, e.g. 15 or resid_mid.5."""
    d_model: int | None = None
    """Width of the activations, instead of model and layer: training from a cache."""
    prior: Literal["atomic", "composite", "quadratic"] = "composite"
    """Constraint on the mixing of atoms into latents."""
    n_latents: int = 8192
    """Size of the dictionary."""
    n_hidden: int | None = None
    """Atoms; by default twice the latents, or as many where the prior is atomic."""
    mixing_density: float = 0.001
    """Share of C that a composite autoencoder keeps in the end."""
    batch_tokens: int = 8192
    """Tokens a step, over all processes."""
    steps: int = 2048
    """Steps of the run."""
    block_length: int = 256
    """Tokens that the language model reads together."""
    processes: int = 1
    """Processes that share every batch (torchrun)."""
    json: bool = False
    """Print everything as JSON."""

    def run(self) -> int:
        import json

        from rich.console import Console

        from quadric.training import AutoencoderConfig, TrainingConfig
        from quadric.training.machine import matmul_rate
        from quadric.training.plan import plan_run

        config = AutoencoderConfig(
            hook_point=self.layer or "cache",
            prior=self.prior,
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            mixing_density=self.mixing_density,
        )
        training = TrainingConfig(steps=self.steps, alpha_warmup_steps=min(256, self.steps))
        reading = self._reading()
        width = self.d_model if reading is None else reading.d_model
        assert width is not None
        per_token = 0.0 if reading is None else reading.flops_per_token
        plan = plan_run(config, training, width, self.batch_tokens, self.processes, per_token)
        rate = matmul_rate()
        if self.json:
            extra = {"d_model": width, "matmul_flops_per_second": rate, "seconds": plan.seconds(rate)}
            print(json.dumps(plan.as_json() | extra | {"language_model_flops_per_token": per_token}, allow_nan=False))
            return 0
        console = Console()
        console.print(_table(plan))
        console.print(_account(plan, reading, rate, self.processes), highlight=False)
        return 0

    def _reading(self) -> "ReadingCost | None":
        """The language model's part, where there is one."""
        if (self.model is None) != (self.layer is None) or (self.model is None) == (self.d_model is None):
            raise ValueError(
                f"model={self.model}, layer={self.layer}, d_model={self.d_model} do not go together; "
                "give --model and --layer, or --d-model alone"
            )
        if self.model is None or self.layer is None:
            if self.d_model is not None and self.d_model < 1:
                raise ValueError(f"d_model={self.d_model} is not positive; give the width of the activations")
            return None
        from quadric.activations.model_cost import reading_cost
        from quadric.activations.models import find_model

        return reading_cost(find_model(self.model), self.layer, self.block_length)


def _table(plan: "RunPlan") -> "Table":
    from rich.table import Table

    table = Table("a step", *(f"{e.phase.name}, steps {e.phase.first_step}–{e.phase.last_step}" for e in plan.phases))
    for part in plan.phases[0].flops._fields:
        table.add_row(f"{part}, FLOP", *(_counted(getattr(each.flops, part)) for each in plan.phases))
    table.add_row("total, FLOP", *(_counted(each.flops.total) for each in plan.phases), end_section=True)
    table.add_row("memory kept", *(_bytes(each.memory.state) for each in plan.phases))
    table.add_row("peak memory", *(_bytes(each.memory.peak) for each in plan.phases))
    return table


def _account(plan: "RunPlan", reading: "ReadingCost | None", rate: float, processes: int) -> str:
    each = " in each process" if processes > 1 else ""
    lines = [
        f"Training takes up to {_bytes(plan.peak_bytes)}{each}; checkpoints up to {_bytes(plan.checkpoint_bytes)}."
    ]
    if reading is not None:
        lines.append(
            f"The language model runs {reading.n_layers} layers: {_counted(reading.flops_per_token)}FLOP a token, "
            f"{_counted(plan.reading_flops_per_step)}FLOP a step{each}; its weights take "
            f"{_bytes(reading.weight_bytes)} in float32 besides."
        )
    lines.append(
        f"The run takes {_counted(plan.flops)}FLOP{each}: {_duration(plan.seconds(rate))} at the "
        f"{_counted(rate)}FLOP/s of float32 matrix products just measured on this machine's CPU. No run is all matrix "
        "products, so expect more; a phase is priced at its dearest step."
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
