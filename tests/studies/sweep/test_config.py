"""A sweep is stored as its cells; one of an earlier version is refused."""

import json
from pathlib import Path

import pytest

from quadric import Atomic, Training
from quadric.data import ActivationConfig
from quadric.model.terms import Error
from quadric.studies.sweep import SweepConfig
from quadric.studies.sweep.config import FORMAT_VERSION, read_sweep_config, write_sweep_config
from quadric.train import Cell

CELLS = (
    Cell(hook_point="resid_pre.3", settings=Atomic(n_latents=8)),
    Cell(hook_point="resid_pre.4", settings=Atomic(n_latents=8), loss=(Error(),), seed=1),
)
READING = ActivationConfig(hook_points="3")
CONFIG = SweepConfig(activations=READING, cells=CELLS, training=Training(steps=9), sequences_per_step=2, epochs=3)


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    assert read_sweep_config(tmp_path) == CONFIG


def test_a_run_of_some_cells_reads_their_hook_points_alone() -> None:
    run = CONFIG.run_of(CELLS[1:], "cache")
    assert (run.reading.hook_points, run.cells, run.cache) == ("resid_pre.4", CELLS[1:], "cache")
    assert (run.training, run.sequences_per_step, run.epochs) == (Training(steps=9), 2, 3)


def test_a_sweep_of_an_earlier_version_is_refused_in_one_line(tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    path = tmp_path / "sweep.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"format_version": FORMAT_VERSION - 1}))
    with pytest.raises(ValueError, match=r"format version 7, written by a Quadric before 0\.3; restore it, or begin"):
        read_sweep_config(tmp_path)


def test_a_kind_that_nobody_registered_is_named(tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(path.read_text().replace('"atomic"', '"mine"'))
    with pytest.raises(ValueError, match="'mine' is not a known kind"):
        read_sweep_config(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": ()}, "no dictionary to train"),
        ({"cells": (CELLS[0], CELLS[0])}, "twice"),
        ({"cells_together": 0}, "cells_together=0"),
        ({"spliced_tokens": -1}, "spliced_tokens=-1"),
        ({"epochs": 0}, "epochs=0"),
    ],
)
def test_mistakes_are_refused_when_the_config_is_made(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SweepConfig(**{"activations": READING, "cells": CELLS, "training": Training(), **changes})
