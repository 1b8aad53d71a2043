"""`quadric train`: one run, or several autoencoders from one pass of the language model."""

import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.activation_flags import ActivationFlags

if TYPE_CHECKING:
    from quadric.recipes import Scale
    from quadric.run_config import RunConfig

WITH_RESUME = ("resume", "device", "model", "corpus", "cache", "tensorboard", "wandb_project")


@dataclass(frozen=True, kw_only=True)
class Train(ActivationFlags):
    """Train autoencoders on a language model's activations, all of them from one pass over the text.

    Example: quadric train --model smollm2 --layer 15 --prior composite --out runs/first
    Example: quadric train --layers 9,15 --prior atomic composite quadratic topk --seeds 0 1 2 --out runs/grid
    Example: quadric train --resume runs/first
    Example: torchrun --standalone --nproc-per-node 2 -m quadric train --layer 15 --out runs/two
    """

    layers: Annotated[str, tyro.conf.arg(aliases=["--layer"])] = "15"
    """Comma-separated hook points: 9,15 or layers.18 (residual stream into a layer), blocks.5.hook_resid_post,
    model.layers.5.mlp, resid_mid.5 ..."""
    prior: tuple[Literal["atomic", "composite", "quadratic", "topk", "batch_topk"], ...] = ("composite",)
    """Constraints on the mixing of atoms into latents, or the linear baselines topk and batch_topk."""
    alpha: tuple[float, ...] = (0.3,)
    """Weights of the density penalty."""
    seeds: tuple[int, ...] = (0,)
    """Of the initial weights."""
    out: Path | None = None
    """Folder of the run; runs/ and the names of model, layers and priors if left out."""
    resume: Path | None = None
    """Go on with the run in this folder; its own config decides everything. Only --device, the flags of telemetry
    and, where things have moved, --model, --corpus and --cache may be given with it."""

    recipe: Literal["auto", "paper", "small"] = "auto"
    """Where the sizes below come from if they are left out: the paper's k = 8192, h = 16384 and 2048 steps of 32 × 256
    tokens; or small, k = 1024, h = 2048 and 200 steps of 16 × 256. Auto is small on a CPU and paper elsewhere."""
    n_latents: int | None = None
    """Size of the dictionary."""
    n_hidden: int | None = None
    """Atoms; twice the latents if left out, and as many as latents in an atomic dictionary."""
    mixing_density: float | None = None
    """Share of C that a composite dictionary keeps in the end."""
    n_active: int | None = None
    """Latents that fire for a token, in the linear baselines."""
    steps: int | None = None
    """Batches to train on."""
    alpha_warmup_steps: int | None = None
    """Steps over which alpha grows from 0; at most an eighth of --steps where only those are given."""
    sequences_per_step: int | None = None
    """Sequences in a batch, over all processes together."""
    epochs: int | None = None
    """How often the text may be read."""
    cache: str | None = None
    """Folder of stored activations (quadric harvest) to read instead of running the language model."""

    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    keep_checkpoints: int | None = None
    """Checkpoints to keep."""
    tensorboard: bool = False
    """Write to RUN/tensorboard too."""
    wandb_project: str | None = None
    """Project of Weights & Biases to log to as well."""

    def run(self) -> int:
        from quadric.training.across import join_job, leave_job

        place = join_job()
        try:
            if self.resume is not None:
                self._check_only_what_resuming_takes()
                return self._carry_on(self.resume, place.is_first)
            config = self._run_config()
            folder = self.out or _default_folder(config)
            if place.is_first:
                self._start(config, folder)
            _wait_for_the_first()
            return self._carry_on(folder, place.is_first)
        finally:
            leave_job()

    def _check_only_what_resuming_takes(self) -> None:
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if refused := [f"--{name.replace('_', '-')}" for name in given if name not in WITH_RESUME]:
            raise ValueError(
                f"{', '.join(refused)} cannot be given with --resume: the run's own config decides; leave it out, or "
                "start a new run with --out"
            )

    def _run_config(self) -> "RunConfig":
        from quadric.recipes import Grid, run

        grid = Grid(dictionaries=self.prior, alphas=self.alpha, seeds=self.seeds)
        return run(self._scale(), self.activation_config(self.layers), grid, cache=self.cache)

    def _scale(self) -> "Scale":
        from quadric.activations.models import chosen_device
        from quadric.recipes import PAPER, SMALL

        on_cpu = chosen_device(self.device).type == "cpu"
        scale = SMALL if self.recipe == "small" or (self.recipe == "auto" and on_cpu) else PAPER
        given = {field.name: getattr(self, field.name) for field in fields(scale)}
        changed = {name: value for name, value in given.items() if value is not None}
        if "steps" in changed and "alpha_warmup_steps" not in changed:
            changed["alpha_warmup_steps"] = min(scale.alpha_warmup_steps, changed["steps"] // 8)
        return replace(scale, **changed)

    def _start(self, config: "RunConfig", folder: Path) -> None:
        from quadric.activations.models import preparation
        from quadric.running import start

        if (first := preparation(self.model)) is not None:
            print(first, file=sys.stderr)
        start(config, folder, device=self.device)
        each = config.sequences_per_step * config.activations.corpus.block_length
        print(
            f"Training {len(config.autoencoders)} autoencoder(s) in {folder}: {config.training.steps:,} steps of "
            f"{each:,} tokens of {config.activations.model}.",
            file=sys.stderr,
        )

    def _carry_on(self, folder: Path, is_first: bool) -> int:
        from quadric.cli.training_progress import training_progress
        from quadric.run_config import read_run_config
        from quadric.running import Moved, carry_on, is_finished
        from quadric.training import InterruptedTraining

        config = read_run_config(folder)
        if is_finished(folder):
            print(f"Nothing is left to do: the run in {folder} is finished.")
            return 0
        moved = Moved(
            model=self.model if self.model != "smollm2" else None,
            corpus=self.corpus if self.corpus != "wiki-leads" else None,
            cache=self.cache,
        )
        try:
            with training_progress(config.training.steps, shown=is_first) as progress:
                carry_on(
                    folder,
                    device=self.device,
                    moved=moved if self.resume else None,
                    tensorboard=self.tensorboard,
                    wandb_project=self.wandb_project,
                    on_open=progress.open,
                    on_step=progress.step,
                )
        except InterruptedTraining as stopped:
            if is_first:
                print(f"{stopped}; go on with: quadric train --resume {folder}", file=sys.stderr)
            raise
        if is_first:
            _print_result(folder)
        return 0


def _default_folder(config: "RunConfig") -> Path:
    model = Path(config.activations.model).name.removesuffix(".gguf")
    layers = "+".join(dict.fromkeys(each.hook_point for each in config.autoencoders))
    kinds = "+".join(
        dict.fromkeys(each.prior if each.kind == "bilinear" else each.kind for each in config.autoencoders)
    )
    return Path("runs") / f"{model}-{layers}-{kinds}"


def _wait_for_the_first() -> None:
    from quadric.training.across import gathered

    gathered(None)


def _print_result(folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from quadric.run_folder import autoencoder_folders
    from quadric.telemetry import read_metrics

    last = {line["autoencoder"]: line for line in read_metrics(folder)}
    table = Table(
        "autoencoder", "error", "density", title="Last batch (evaluate on held-out text for more)", title_justify="left"
    )
    for name, line in last.items():
        table.add_row(name, f"{line['error']:.3f}", f"{line['density']:.3f}")
    console = Console()
    console.print(table)
    more = "" if len(autoencoder_folders(folder)) == 1 else f", autoencoder={next(iter(last))!r}"
    console.print(
        f"Saved in {folder}; load with quadric.load({str(folder)!r}{more}), measure with quadric evaluate {folder}",
        soft_wrap=True,
    )
