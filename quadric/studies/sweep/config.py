"""Configuration of a sweep, stored as sweep.json."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from quadric._io.files import read_versioned_json, write_atomically
from quadric._io.records import record_from_json
from quadric.data import ActivationConfig
from quadric.data.provenance import differences
from quadric.run.config import RunConfig, cells_from_json
from quadric.train.settings import Cell, Training

FILE_NAME = "sweep.json"
ACTIVATIONS = "activations"
RUNS = "runs"
"""Folders in a sweep."""
FORMAT = "quadric-sweep"
FORMAT_VERSION = 8
MAY_CHANGE = ("cells", "cells_together", "live")
"""Fields that may differ when a sweep is resumed or extended, because they do not affect finished cells."""


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """Which cells to train, on which activations, and how to measure them.

    Example:
        >>> from quadric.data import ActivationConfig
        >>> from quadric.run.recipes import cells
        >>> from quadric.studies.sweep import SweepConfig
        >>> config = SweepConfig(
        ...     activations=ActivationConfig(hook_points="resid_pre.9,resid_pre.15"),
        ...     cells=cells(["resid_pre.9", "resid_pre.15"], ["atomic", "topk"], seeds=(0, 1)),
        ...     training=quadric.Training(steps=500),
        ... )
        >>> len(config.cells)
        8
    """

    activations: ActivationConfig
    cells: tuple[Cell, ...]
    training: Training
    sequences_per_step: int = 32
    """Sequences per batch."""
    epochs: int = 1
    """How many times the text may be read."""
    live: bool = False
    """Run the language model for every group instead of storing its activations once."""
    cells_together: int = 16
    """Number of cells trained together on the same batches; all of them are in memory at once."""
    held_out_tokens: int = 16384
    """Number of held-out tokens for measuring each cell."""
    spliced_tokens: int = 0
    """Number of tokens to predict from reconstructed vectors; 0 skips this."""

    def __post_init__(self) -> None:
        for name in ("cells_together", "held_out_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; use at least 1")
        if self.spliced_tokens < 0:
            raise ValueError(f"spliced_tokens={self.spliced_tokens} is negative; use 0 to skip the predictions")
        self.run_of(self.cells)

    def run_of(self, cells: tuple[Cell, ...], cache: str | None = None) -> RunConfig:
        """Config of a run with some of the cells; the language model stops at the deepest of their layers."""
        places = ",".join(dict.fromkeys(cell.hook_point for cell in cells))
        return RunConfig(
            activations=replace(self.activations, hook_points=places),
            cells=cells,
            training=self.training,
            sequences_per_step=self.sequences_per_step,
            epochs=self.epochs,
            cache=cache,
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is stored."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        records = {"activations": asdict(self.activations), "training": asdict(self.training)}
        return values | records | {"cells": [cell.as_json() for cell in self.cells]}


def write_sweep_config(config: SweepConfig, folder: Path) -> None:
    """Store a sweep's config; an existing sweep can only be extended.

    A new sweep may find activations in its folder: a copy of another sweep's, or a link to them.
    """
    if (folder / FILE_NAME).is_file():
        _check_same(read_sweep_config(folder), config, folder)
    elif folder.exists() and (not folder.is_dir() or any(each.name != ACTIVATIONS for each in folder.iterdir())):
        raise FileExistsError(f"'{folder}' exists and is not a sweep; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, **config.as_json()}
    write_atomically(folder / FILE_NAME, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


def read_sweep_config(folder: Path) -> SweepConfig:
    """Read a sweep's config; a wrong format, version or field is an error.

    Args:
        folder: Of the sweep.

    Returns:
        The config.

    Example:
        >>> from quadric.studies.sweep.config import read_sweep_config
        >>> config = read_sweep_config(Path("runs/sweep"))
        >>> config.activations.model, config.held_out_tokens
        ('my-model', 64)
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {FILE_NAME} in '{folder}'; give a folder written by quadric sweep")
    remedy = "restore it, or begin the sweep again in another folder"
    record = read_versioned_json(path, FORMAT, FORMAT_VERSION, "a sweep", remedy, since="0.3")
    del record["format"], record["format_version"]
    return record_from_json(SweepConfig, record | {"cells": cells_from_json(record.get("cells"), path)}, str(path))


def _check_same(stored: SweepConfig, asked: SweepConfig, folder: Path) -> None:
    """Require the same text, steps and measurement, so that all cells of the table are comparable."""
    layers = asked.activations.hook_points
    same = replace(stored, activations=replace(stored.activations, hook_points=layers))
    before, now = (json.loads(json.dumps(each.as_json())) for each in (same, asked))
    found = differences(before, now, MAY_CHANGE)
    if found:
        raise ValueError(
            f"the sweep in '{folder}' was started with other settings ({'; '.join(found)}); "
            "use the same settings, or another --out"
        )
