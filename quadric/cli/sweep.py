"""`quadric sweep`: a grid of autoencoders, trained and measured cell by cell, as one table."""

import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.scale_flags import ScaleFlags

if TYPE_CHECKING:
    from quadric.activations import ActivationConfig
    from quadric.sweep import SweepConfig

WITH_RESUME = ("resume", "device", "model", "corpus")


@dataclass(frozen=True, kw_only=True)
class Sweep(ScaleFlags):
    """Train and measure a grid over layers, priors, alphas and seeds; the language model reads the text once.

    Interrupted, the same command goes on where it stopped. A larger grid with the same --out adds the cells that are
    not there yet.

    Example: quadric sweep --layers 5,15,25 --prior atomic composite quadratic topk --seeds 0 1 2 --out runs/layers
    Example: quadric sweep --paper qwen --live --cells-together 4 --out runs/qwen
    Example: quadric sweep --resume runs/layers
    """

    layers: Annotated[str | None, tyro.conf.arg(aliases=["--layer"])] = None
    """Comma-separated hook points, as quadric train takes them; or `even` for every second layer, as the paper has it.
    Layer 15 if left out."""
    prior: tuple[Literal["atomic", "composite", "quadratic", "topk", "batch_topk"], ...] = ()
    """Constraints on the mixing of atoms into latents, or the linear baselines topk and batch_topk; composite if left
    out."""
    alpha: tuple[float, ...] = (0.3,)
    """Weights of the density penalty."""
    seeds: tuple[int, ...] = (0,)
    """Of the initial weights."""
    paper: Literal["qwen", "gemma", "llama"] | None = None
    """The paper's sweep on one of its models: its text, layers, priors and sizes where they are left out; --model says
    where the model is, if not on the hub."""
    out: Path | None = None
    """Folder of the sweep."""
    resume: Path | None = None
    """Go on with the sweep in this folder as it is; only --device and, where things have moved, --model and --corpus
    may be given with it."""
    live: bool = False
    """Run the language model for every group of cells instead of storing its activations once: no disk, more passes."""
    cells_together: int = 16
    """Cells that are trained on the same batches, and are in memory together."""
    held_out_tokens: int = 16384
    """Held-out tokens to measure every cell on."""
    spliced_tokens: int = 0
    """Tokens to predict with rebuilt vectors, for cross-entropy recovered; 0 leaves it out."""

    def run(self) -> int:
        from quadric.cli.sweep_progress import sweep_progress
        from quadric.runs.running import Moved
        from quadric.sweep import read_rows, start_sweep, sweep

        folder = self._folder()
        moved = None
        if self.resume is None:
            self._announce_preparation()
            start_sweep(self._sweep_config(), folder)
        else:
            moved = Moved(model=self._given("model"), corpus=self._given("corpus"))
        try:
            with sweep_progress() as watcher:
                table = sweep(folder, device=self.device, moved=moved, watcher=watcher)
        except KeyboardInterrupt:
            print(f"stopped; go on with: quadric sweep --resume {folder}", file=sys.stderr)
            raise
        print(f"{len(read_rows(folder))} cells in {table} (and .csv); draw them with quadric figures {folder}")
        return 0

    def _folder(self) -> Path:
        if self.resume is not None:
            self.check_resumes_with(WITH_RESUME)
            return self.resume
        if self.out is None:
            raise ValueError("no folder was given; say where the sweep goes, e.g. --out runs/layers")
        return self.out

    def _announce_preparation(self) -> None:
        from quadric.activations.models import preparation

        if (first := preparation(self.model)) is not None:
            print(first, file=sys.stderr)

    def _given(self, name: str) -> str | None:
        """The value of a flag, or None where it was left at its default."""
        (default,) = (field.default for field in fields(self) if field.name == name)
        value: str = getattr(self, name)
        return value if value != default else None

    def _sweep_config(self) -> "SweepConfig":
        from quadric.runs.recipes import PAPER_DICTIONARIES, Grid
        from quadric.sweep import SweepConfig

        sized = replace(self, recipe="paper") if self.paper and self.recipe == "auto" else self
        priors = self.prior or (PAPER_DICTIONARIES if self.paper else Grid().dictionaries)
        return SweepConfig(
            activations=self._activations(),
            scale=sized.scale(),
            grid=Grid(dictionaries=priors, alphas=self.alpha, seeds=self.seeds),
            live=self.live,
            cells_together=self.cells_together,
            held_out_tokens=self.held_out_tokens,
            spliced_tokens=self.spliced_tokens,
        )

    def _activations(self) -> "ActivationConfig":
        """The flags' own, or the paper's where they were left out."""
        from quadric.runs.recipes import FINEWEB, PAPER_MODELS, even_layers

        layers = self.layers or ("even" if self.paper else "15")
        config = self.activation_config(layers)
        if self.paper is not None:
            config = replace(config, model=self._given("model") or PAPER_MODELS[self.paper].hub_id)
            if self._given("corpus") is None:
                config = replace(config, corpus=replace(config.corpus, source=FINEWEB.source, subset=FINEWEB.subset))
        if layers == "even":
            config = replace(config, hook_points=even_layers(config.model, config.model_revision))
        return config
