"""`quadric sweep`: a grid of autoencoders, trained and measured cell by cell, as one table."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, OptionalPath, check_resumes_with
from quadric.cli.output import announce, announce_preparation, say, this_command
from quadric.cli.run_flags import Combined, RunFlags, dictionary_flags, layers_flag, model_flags
from quadric.data.settings import ActivationConfig, CorpusConfig
from quadric.run.recipes import EVEN, FINEWEB, PAPER_KINDS, PAPER_MODELS, run_of, with_layers

if TYPE_CHECKING:
    from quadric.studies.sweep import SweepConfig

PAPER_PRIORS = "composite; atomic composite quadratic topk with --paper"
ModelFlags = model_flags(layers_flag("15; `even`, every second layer, with --paper"))


def _dictionary_flags() -> type[FlagGroup]:
    return dictionary_flags(PAPER_PRIORS)


ModelGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=ModelFlags)]
DictionaryGroup: TypeAlias = Annotated[
    FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor_factory=_dictionary_flags)
]
PaperModel: TypeAlias = Annotated[
    Literal["qwen", "gemma", "llama"] | None,
    tyro.conf.arg(metavar="{qwen,gemma,llama}", help_behavior_hint=""),
]


@dataclass(frozen=True, kw_only=True)
class Sweep(RunFlags):
    """Train and measure a grid over layers, priors, alphas and seeds; the language model reads the text once.

    After an interruption the same command continues where it stopped. A larger grid with the same --out adds the cells
    that are missing.

    Example: quadric sweep --layers 5,15,25 --prior atomic composite quadratic topk --seeds 0 1 2 --out runs/layers
             quadric sweep --paper qwen --live --cells-together 4 --out runs/qwen
             quadric sweep --resume runs/layers
    """

    shown_first: ClassVar[tuple[str, ...]] = (
        *(name for name in RunFlags.shown_first if name != "cache"), "paper", "live", "cells_together",
    )  # fmt: skip

    model: ModelGroup = field(default_factory=ModelFlags)
    """The language model, and where its activations are read; --layers even is every second layer."""
    dictionary: DictionaryGroup = field(default_factory=lambda: _dictionary_flags()())
    """What is trained; one cell for every combination of layer, prior, alpha and seed."""
    paper: PaperModel = None
    """The paper's sweep on one of its models: its text, layers, priors and sizes where they are not given."""
    out: OptionalPath = None
    """Folder of the sweep."""
    resume: OptionalPath = None
    """Continue the sweep in this folder; only --device, --model, --corpus and --import may be given with it."""
    live: bool = False
    """Run the language model for every group of cells instead of storing its activations once: no disk, more passes."""
    cells_together: int = 16
    """Cells that are trained on the same batches, and are in memory together."""
    held_out_tokens: int = 16384
    """Held-out tokens to measure every cell on."""
    spliced_tokens: int = 0
    """Tokens to predict with reconstructed activations, for cross-entropy recovered; 0 skips this."""

    def run(self) -> int:
        folder = self._folder()
        announce("sweep", f"preparing {folder}")
        from quadric.cli.progress import SweepProgress, progress
        from quadric.run.running import Moved
        from quadric.studies.sweep import Watcher, read_rows, start_sweep, sweep

        class SweepWatcher(SweepProgress, Watcher):
            """The display as `sweep` asks for it."""

        moved = None
        if self.resume is None:
            if self.paper is None:
                announce_preparation(self.model_name)
            start_sweep(self.sweep_config(), folder)
        else:
            model = self.model.given(ActivationConfig).get("model")
            moved = Moved(model=model, corpus=self.text.given(CorpusConfig).get("source"))
        try:
            with progress() as display:
                table = sweep(folder, device=self.device, moved=moved, watcher=SweepWatcher(display))
        except KeyboardInterrupt:
            say(f"stopped; continue with: {this_command()} sweep --resume {folder}{self.imports}", file=sys.stderr)
            raise
        say(f"{len(read_rows(folder))} cells in {table} (and .csv); draw them with: {this_command()} figures {folder}")
        return 0

    def _folder(self) -> Path:
        if self.resume is not None:
            check_resumes_with(self, "--resume", "--device", "--model", "--corpus", "--import")
            return self.resume
        if self.out is None:
            raise ValueError("no folder was given; say where the sweep goes, e.g. --out runs/layers")
        return self.out

    def sweep_config(self) -> "SweepConfig":
        """What the flags ask for, or the paper's choices where they ask for nothing."""
        from quadric.studies.sweep import SweepConfig

        paper = self.paper
        kinds = self.dictionary.given(Combined).get("kinds", Combined.kinds if paper is None else PAPER_KINDS)
        activations = self._activations(paper)
        run = run_of(self.recipe("auto" if paper is None else "paper"), activations, kinds, **self.changes(kinds))
        return SweepConfig(
            activations=activations,
            cells=run.cells,
            training=run.training,
            sequences_per_step=run.sequences_per_step,
            epochs=run.epochs,
            live=self.live,
            cells_together=self.cells_together,
            held_out_tokens=self.held_out_tokens,
            spliced_tokens=self.spliced_tokens,
        )

    def _activations(self, paper: str | None) -> ActivationConfig:
        if paper is None:
            config = self.activation_config()
        else:
            text = self.text.given(CorpusConfig)
            config = self.activation_config(model=PAPER_MODELS[paper], hook_points=EVEN)
            config = config if "source" in text else replace(config, corpus=replace(FINEWEB, **text))
        return with_layers(config, config.hook_points)
