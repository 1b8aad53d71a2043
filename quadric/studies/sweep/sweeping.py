"""Run a sweep from its config to its table. An interrupted sweep resumes; finished cells are not repeated.

Cells that are trained together are a group: a run folder that can be resumed, evaluated and viewed.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from quadric._io.locks import only_writer
from quadric.data import HarvestConfig, harvest_to_folder
from quadric.data.storage import NAME as MANIFEST
from quadric.evaluation import EvaluationSettings, evaluate_on_text
from quadric.evaluation.evaluating import Candidate
from quadric.model import load_pretrained
from quadric.run.config import RunConfig, read_run_config
from quadric.run.folder import autoencoder_folder
from quadric.run.running import Moved, is_finished, new_run, train_run
from quadric.studies.sweep.config import ACTIVATIONS, RUNS, SweepConfig, read_sweep_config, write_sweep_config
from quadric.studies.sweep.rows import Row, cell_row, read_rows, row_path, write_row, write_table
from quadric.train import Cell, Learner
from quadric.train.checkpoints import Damaged


@dataclass(frozen=True, kw_only=True)
class Group:
    """Cells trained on the same batches, and the folder of their run."""

    folder: Path
    config: RunConfig
    is_new: bool
    """Whether the run still has to be created."""

    @property
    def cache(self) -> Path | None:
        """Folder of its stored activations, found even if the sweep was moved; None if they are not stored."""
        if self.config.cache is None:
            return None
        return self.folder.parents[1] / ACTIVATIONS / Path(self.config.cache).name


def groups(config: SweepConfig, folder: Path) -> list[Group]:
    """The existing runs, and new runs for the cells that no existing run contains."""
    old = [Group(folder=each, config=read_run_config(each), is_new=False) for each in _run_folders(folder)]
    claimed = {cell.name for group in old for cell in group.config.cells}
    missing = [cell for cell in config.cells if cell.name not in claimed]
    new: list[Group] = []
    for cache, cells in _by_cache(config, folder, missing).items():
        for start in range(0, len(cells), config.cells_together):
            number = len(old) + len(new)
            part = config.run_of(tuple(cells[start : start + config.cells_together]), cache)
            new.append(Group(folder=folder / RUNS / f"{number:03d}", config=part, is_new=True))
    return [*old, *new]


def _run_folders(folder: Path) -> list[Path]:
    """Existing runs. A folder without run.json is left over from a killed start and is created again."""
    runs = folder / RUNS
    return sorted(each for each in runs.iterdir() if (each / "run.json").is_file()) if runs.is_dir() else []


def _by_cache(config: SweepConfig, folder: Path, cells: list[Cell]) -> dict[str | None, list[Cell]]:
    """Cells grouped by cache: an existing cache, or a new one for all hook points not cached yet."""
    if config.live:
        return {None: cells} if cells else {}
    places = list(dict.fromkeys(cell.hook_point for cell in cells))
    known = {place: cache for cache in _cache_names(folder) for place in cache.split("+")}
    new = "+".join(place for place in places if place not in known)
    by_cache: dict[str | None, list[Cell]] = {}
    for cell in cells:
        by_cache.setdefault(known.get(cell.hook_point, new), []).append(cell)
    return by_cache


def _cache_names(folder: Path) -> list[str]:
    caches = folder / ACTIVATIONS
    return [each.name for each in caches.iterdir() if (each / MANIFEST).is_file()] if caches.is_dir() else []


class Watcher:
    """Callbacks for the progress of a sweep; this base class does nothing.

    Example:
        >>> from quadric.studies.sweep import Watcher, sweep
        >>> class Printing(Watcher):
        ...     def plan(self, cells, finished):
        ...         print(f"{len(finished)} of {len(cells)} cells are finished")
        >>> table = sweep(Path("runs/sweep"), watcher=Printing())
        2 of 2 cells are finished
    """

    def plan(self, cells: list[str], finished: list[Row]) -> None:
        """Called once with all requested cells and the rows of those already finished."""

    def progress(self, what: str, done: int, total: int, words: str) -> None:
        """Called while activations are being stored, and while held-out text is being read."""

    def train(self, cells: list[str], steps: int) -> None:
        """Called before a group is trained."""

    def opened(self, step: int, damaged: list[Damaged]) -> None:
        """Called when the group's run has been opened at a step."""

    def step(self, learner: Learner) -> None:
        """Called with each learner of the group after each training step."""

    def row(self, row: Row) -> None:
        """Called when a cell is finished."""


def start_sweep(config: SweepConfig, folder: Path) -> None:
    """Create a sweep folder, or extend an existing sweep. An incompatible config is an error and changes nothing.

    Args:
        config: What to train and measure. An existing sweep may get more cells; nothing else may change.
        folder: Of the sweep.

    Returns:
        Nothing; `sweep` does the work.

    Example:
        >>> from dataclasses import replace
        >>> from quadric.studies.sweep.config import read_sweep_config
        >>> from quadric.studies.sweep import start_sweep
        >>> config = read_sweep_config(Path("runs/sweep"))
        >>> start_sweep(replace(config, held_out_tokens=100), Path("runs/another"))
        >>> read_sweep_config(Path("runs/another")).held_out_tokens
        100
    """
    write_sweep_config(config, folder)


def sweep(folder: Path, *, device: str = "auto", moved: Moved | None = None, watcher: Watcher | None = None) -> Path:
    """Train and measure every unfinished cell of a sweep.

    Args:
        folder: Of the sweep, made by `start_sweep`.
        device: Device of the language model and of the autoencoders.
        moved: Where the model or the text are now, if they have moved since the sweep was started.
        watcher: Is told about the progress.

    Returns:
        The path of the table.

    Example:
        >>> from quadric.studies.sweep import sweep
        >>> sweep(Path("runs/sweep"))  # every cell is finished: nothing to train
        PosixPath('runs/sweep/results.parquet')
    """
    config, watcher, moved = read_sweep_config(folder), watcher or Watcher(), moved or Moved()
    config = replace(config, activations=moved.activations(config.activations))
    found = groups(config, folder)
    watcher.plan([cell.name for group in found for cell in group.config.cells], read_rows(folder))
    with only_writer(folder, "quadric sweep"):
        for group in found:
            if group.is_new or not is_finished(group.folder):
                _train(config, group, found, device, moved, watcher)
            _measure(config, group, folder, device, moved, watcher)
        return write_table(folder, read_rows(folder))[0]


def _train(config: SweepConfig, group: Group, every: list[Group], device: str, moved: Moved, watcher: Watcher) -> None:
    if group.cache is not None:
        _fill_cache(config, group.cache, every, device, watcher)
    places = Moved(model=moved.model, corpus=moved.corpus, cache=str(group.cache) if group.cache else None)
    created = new_run(places.apply(group.config), group.folder, device=device) if group.is_new else nullcontext()
    with created:
        watcher.train([cell.name for cell in group.config.cells], group.config.training.steps)
        train_run(group.folder, device=device, moved=places, on_open=watcher.opened, callbacks=[watcher.step])


def _fill_cache(config: SweepConfig, cache: Path, every: list[Group], device: str, watcher: Watcher) -> None:
    """Harvest all hook points of a cache in one pass of the language model, for all groups that read it."""
    activations = replace(config.activations, hook_points=cache.name.replace("+", ","))
    storage = HarvestConfig(tokens=_tokens_to_store(every[0].config))
    harvest_to_folder(activations, storage, cache, device=device, on_progress=watcher.progress)


def _tokens_to_store(config: RunConfig) -> int:
    """Number of tokens in one epoch, counting every token of its sequences as kept."""
    sequences = -(-config.sequences // config.epochs)
    return sequences * config.reading.corpus.block_length


def _measure(config: SweepConfig, group: Group, folder: Path, device: str, moved: Moved, watcher: Watcher) -> None:
    """Measure all cells of a group that have no row yet, in one pass over held-out text."""
    cells = [cell for cell in group.config.cells if not row_path(folder, cell.name).is_file()]
    if not cells:
        return
    loaded = {cell.name: load_pretrained(autoencoder_folder(group.folder, cell.name)) for cell in cells}
    settings = EvaluationSettings(
        tokens=config.held_out_tokens,
        spliced_tokens=config.spliced_tokens,
        model=config.activations.model,
        corpus=config.activations.corpus.source,
    )
    candidates = [Candidate(group.folder.name, name, autoencoder) for name, autoencoder in loaded.items()]
    found = evaluate_on_text(candidates, settings, device=device, on_progress=watcher.progress)
    for cell, evaluation in zip(cells, found, strict=True):
        row = cell_row(cell, group.config, loaded[cell.name], evaluation, group.folder.name)
        write_row(folder, row)
        watcher.row(row)
