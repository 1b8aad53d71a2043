"""What a sweep is asked to do, whole: stored as sweep.json."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from quadric._files import write_atomically
from quadric._records import record_from_json
from quadric.activations import ActivationConfig
from quadric.activations.provenance import differences
from quadric.runs.config import RunConfig
from quadric.runs.recipes import Grid, Scale, make_run_config

FILE_NAME = "sweep.json"
FORMAT = "quadric-sweep"
FORMAT_VERSION = 1
MAY_CHANGE = ("grid", "cells_together", "live")
"""What a sweep may be given anew when it goes on: more cells do not change those that are there."""


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """Which cells, on which activations, measured how."""

    activations: ActivationConfig
    scale: Scale
    grid: Grid
    live: bool = False
    """Run the language model for every group instead of storing its activations once."""
    cells_together: int = 16
    """Cells that are trained on the same batches; all of them are in memory at once."""
    held_out_tokens: int = 16384
    """Held-out tokens to measure every cell on."""
    spliced_tokens: int = 0
    """Tokens to predict with rebuilt vectors; 0 leaves that out."""

    def __post_init__(self) -> None:
        for name in ("cells_together", "held_out_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        if self.spliced_tokens < 0:
            raise ValueError(f"spliced_tokens={self.spliced_tokens} must be ≥ 0")

    def all_cells(self) -> RunConfig:
        """Every cell, as if it were one run."""
        return make_run_config(self.scale, self.activations, self.grid)


def write_sweep_config(config: SweepConfig, folder: Path) -> None:
    """Store a sweep's config; one that stands there may only grow."""
    if (folder / FILE_NAME).is_file():
        _check_same(read_sweep_config(folder), config, folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"'{folder}' exists and is no sweep; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(config)}
    write_atomically(folder / FILE_NAME, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


def read_sweep_config(folder: Path) -> SweepConfig:
    """Read it back, refusing whatever is not exactly that."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {FILE_NAME} in '{folder}'; give a folder that quadric sweep made")
    try:
        record = json.loads(path.read_bytes())
    except ValueError as problem:
        raise ValueError(f"{path} is not valid JSON ({problem}); restore it") from None
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise ValueError(f"{path} does not describe a sweep (no format: {FORMAT!r})")
    if (version := record.pop("format_version", None)) != FORMAT_VERSION:
        raise ValueError(f"{path} has format version {version!r}; this Quadric reads {FORMAT_VERSION}")
    return record_from_json(SweepConfig, record, str(path))


def _check_same(stored: SweepConfig, asked: SweepConfig, folder: Path) -> None:
    """Cells of one table are comparable: same text, same steps, same measurement."""
    layers = asked.activations.hook_points
    before = asdict(replace(stored, activations=replace(stored.activations, hook_points=layers)))
    found = differences(json.loads(json.dumps(before)), json.loads(json.dumps(asdict(asked))), MAY_CHANGE)
    if found:
        raise ValueError(
            f"the sweep in '{folder}' was begun otherwise ({'; '.join(found)}); ask for the same, or give another --out"
        )
