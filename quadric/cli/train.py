"""`quadric train`: one run, or several autoencoders from one pass of the language model."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.scale_flags import ScaleFlags

if TYPE_CHECKING:
    from quadric.runs.config import RunConfig

WITH_RESUME = ("resume", "device", "model", "corpus", "cache", "tensorboard", "wandb_project")


@dataclass(frozen=True, kw_only=True)
class Train(ScaleFlags):
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

    cache: str | None = None
    """Folder of stored activations (quadric harvest) to read instead of running the language model."""

    tensorboard: bool = False
    """Write to RUN/tensorboard too."""
    wandb_project: str | None = None
    """Project of Weights & Biases to log to as well."""

    def run(self) -> int:
        from quadric.training.distributed import join_job, leave_job

        rank = join_job()
        try:
            if self.resume is not None:
                self.check_resumes_with(WITH_RESUME)
                return self._train(self.resume, rank.is_first)
            config = self._run_config()
            folder = self.out or _default_folder(config)
            if rank.is_first:
                self._start(config, folder)
            _wait_for_the_first()
            return self._train(folder, rank.is_first)
        finally:
            leave_job()

    def _run_config(self) -> "RunConfig":
        from quadric.runs.recipes import Grid, make_run_config

        grid = Grid(dictionaries=self.prior, alphas=self.alpha, seeds=self.seeds)
        return make_run_config(self.scale(), self.activation_config(self.layers), grid, cache=self.cache)

    def _start(self, config: "RunConfig", folder: Path) -> None:
        from quadric.activations.models import preparation
        from quadric.runs.running import create_run

        if (first := preparation(self.model)) is not None:
            print(first, file=sys.stderr)
        create_run(config, folder, device=self.device)
        each = config.sequences_per_step * config.reading.corpus.block_length
        print(
            f"Training {len(config.autoencoders)} autoencoder(s) in {folder}: {config.training.steps:,} steps of "
            f"{each:,} tokens of {config.reading.model}.",
            file=sys.stderr,
        )

    def _train(self, folder: Path, is_first: bool) -> int:
        from quadric.cli.training_progress import training_progress
        from quadric.runs.config import read_run_config
        from quadric.runs.running import Moved, is_finished, train_run
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
                train_run(
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
    model = Path(config.reading.model).name.removesuffix(".gguf")
    layers = "+".join(dict.fromkeys(each.hook_point for each in config.autoencoders))
    kinds = "+".join(
        dict.fromkeys(each.prior if each.kind == "bilinear" else each.kind for each in config.autoencoders)
    )
    return Path("runs") / f"{model}-{layers}-{kinds}"


def _wait_for_the_first() -> None:
    from quadric.training.distributed import barrier

    barrier()


def _print_result(folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from quadric.runs.folder import autoencoder_folders
    from quadric.runs.telemetry import read_metrics

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
