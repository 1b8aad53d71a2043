"""A sweep's config on disk."""

import json
from pathlib import Path

import pytest

from quadric.data import ActivationConfig
from quadric.studies.sweep import Grid, Scale, SweepConfig
from quadric.studies.sweep.config import FORMAT_VERSION, read_sweep_config, write_sweep_config

CONFIG = SweepConfig(activations=ActivationConfig(hook_points="3"), scale=Scale(mean_penalty=0.0), grid=Grid())


def test_a_config_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    assert read_sweep_config(tmp_path) == CONFIG


def test_a_sweep_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": FORMAT_VERSION - 1}))
    with pytest.raises(ValueError, match=r"written by a Quadric before 0\.3; .* begin the sweep again"):
        read_sweep_config(tmp_path)
