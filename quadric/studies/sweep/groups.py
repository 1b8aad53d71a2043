"""Groups of cells that are trained together. Each group is a run folder that can be resumed, evaluated and viewed."""

from dataclasses import dataclass
from pathlib import Path

from quadric.data.manifest import NAME as MANIFEST
from quadric.run.config import RunConfig, read_run_config
from quadric.studies.sweep.config import ACTIVATIONS, SweepConfig
from quadric.train.settings import Cell

RUNS = "runs"


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
