"""`quadric train`: one run, or several autoencoders from one pass of the language model."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from quadric.cli.flags import OptionalPath, OptionalText, check_resumes_with
from quadric.cli.output import announce, announce_preparation, say, this_command
from quadric.cli.run_flags import RunFlags
from quadric.data.settings import ActivationConfig, CorpusConfig
from quadric.train.settings import Training

if TYPE_CHECKING:
    from quadric.run.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a run is kept and how it is watched."""

    out: OptionalPath = None
    """Folder of the run; by default runs/ with the names of model, layers and priors."""
    resume: OptionalPath = None
    """Continue the run in this folder by its own config; --steps trains it for longer (see above)."""
    cache: OptionalText = None
    """Folder of stored activations (quadric harvest) to read instead of running the language model."""
    tensorboard: bool = False
    """Also log to RUN/tensorboard."""
    wandb_project: OptionalText = None
    """Also log to this project of Weights & Biases."""


WITH_RESUME = (
    "--resume", "--steps", "--device", "--model", "--corpus", "--cache", "--tensorboard", "--wandb-project", "--import",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Train(RunFlags):
    """Train dictionaries on a language model's activations, all of them from one pass over the text.

    With --resume only these flags may be given: --steps, --device, --tensorboard, --wandb-project, --import and, if
    files have moved, --model, --corpus and --cache.

    Example: quadric train --model smollm2 --layer 15 --prior composite --out runs/first
             quadric train --layers 9,15 --prior atomic composite quadratic topk --seeds 0 1 2 --out runs/grid
             quadric train --resume runs/first
             quadric train --resume runs/first --steps 400
             quadric train --layer 15 --loss density=0.1 error.top=64 --out runs/denser
             torchrun --standalone --nproc-per-node 2 -m quadric train --layer 15 --out runs/two
    """

    output: Annotated[Output, tyro.conf.OmitArgPrefixes] = field(default_factory=Output)
    """Where the run is kept, and how it is watched."""

    def run(self) -> int:
        resume = self.output.resume
        if resume is not None:
            check_resumes_with(self, *WITH_RESUME)
        announce("train", f"continuing {resume}" if resume else f"preparing to read {self.model_name}")
        from quadric.train.distributed import is_job, join_job, leave_job, local_device

        is_first = join_job(self.device).is_first
        try:
            device = str(local_device(self.device)) if is_job() else self.device  # in a job, the process's own GPU
            with ExitStack() as unless_it_fails:
                return self._train(self._folder(is_first, device, unless_it_fails), is_first, device)
        finally:
            leave_job()

    def _folder(self, is_first: bool, device: str, unless_it_fails: ExitStack) -> Path:
        """The folder of the run, which the first process creates, or extends to a larger number of steps."""
        from quadric.run.running import extend_run, new_run
        from quadric.train.distributed import barrier

        folder, steps = self.output.resume, self.training.given(Training).get("steps")
        if folder is None:
            config = self.run_config(cache=self.output.cache)
            folder = self.output.out or _default_folder(config)
            if is_first:
                announce_preparation(self.model_name)
                unless_it_fails.enter_context(new_run(config, folder, device=device))
                tokens = config.sequences_per_step * config.reading.corpus.block_length
                say(
                    f"Training {len(config.cells)} autoencoder(s) in {folder}: {config.training.steps:,} steps of "
                    f"{tokens:,} tokens of {config.reading.model}.",
                    file=sys.stderr,
                )
        elif is_first and steps is not None:
            extend_run(folder, steps)
        barrier()  # until the first process has written the config
        return folder

    def _train(self, folder: Path, is_first: bool, device: str) -> int:
        from quadric.cli.progress import Display, TrainingProgress, progress
        from quadric.run.config import read_run_config
        from quadric.run.running import Moved, is_finished, train_run
        from quadric.train import InterruptedTraining

        if is_finished(folder):
            say(f"Nothing is left to do: the run in {folder} is finished. Train it for longer with --steps.")
            return 0
        moved = Moved()
        if self.output.resume is not None:
            model, corpus = self.model.given(ActivationConfig), self.text.given(CorpusConfig)
            moved = Moved(model=model.get("model"), corpus=corpus.get("source"), cache=self.output.cache)
        config = moved.apply(read_run_config(folder))
        try:
            with progress() as display:
                shown = display if is_first else Display()
                training = TrainingProgress(shown, config.training.steps, len(config.cells))
                train_run(
                    folder,
                    device=device,
                    moved=moved,
                    tensorboard=self.output.tensorboard,
                    wandb_project=self.output.wandb_project,
                    on_open=training.open,
                    callbacks=[training],
                )
        except InterruptedTraining as stopped:
            if is_first:
                command = f"{this_command()} train --resume {folder}{self.imports}"
                say(f"{stopped}; continue with: {command}", file=sys.stderr)
            raise
        if is_first:
            _print_result(folder)
        return 0


LAST_BATCH = "Last batch, each in the coordinates of its lens (evaluate compares them on held-out text)"


def _default_folder(config: "RunConfig") -> Path:
    model = Path(config.reading.model).name.removesuffix(".gguf")
    layers = "+".join(dict.fromkeys(cell.hook_point for cell in config.cells))
    kinds = "+".join(dict.fromkeys(cell.settings.kind for cell in config.cells))
    return Path("runs") / f"{model}-{layers}-{kinds}"


def _print_result(folder: Path) -> None:
    from rich.table import Table

    from quadric._io.terminal import safe_console
    from quadric.cli.progress import REPORTED, reported
    from quadric.run.folder import autoencoder_folders
    from quadric.run.telemetry import read_metrics
    from quadric.train.loop import EXPLODED

    last = {line["autoencoder"]: line for line in read_metrics(folder)}
    table = Table("autoencoder", *REPORTED, title=LAST_BATCH, title_justify="left")
    for name, line in last.items():
        table.add_row(name, *reported(line))
        if line.get("error", 0.0) > EXPLODED:
            say(
                f"quadric: the error of {name} is {line['error']:.2g}, where reconstructing nothing has 1; train again "
                "with a lower --learning-rate",
                file=sys.stderr,
            )
    console = safe_console()
    console.print(table)
    more = "" if len(autoencoder_folders(folder)) == 1 else f", name={next(iter(last))!r}"
    console.print(
        f"Saved in {folder}; load it with quadric.load({str(folder)!r}{more}), measure it with: "
        f"{this_command()} evaluate {folder}",
        soft_wrap=True,
    )
