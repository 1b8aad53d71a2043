"""Sweeps of earlier versions are read with the settings that they had."""

import json
from pathlib import Path

import pytest

from quadric.data import ActivationConfig
from quadric.studies.sweep import Grid, Scale, SweepConfig
from quadric.studies.sweep.config import ADDED_BY_VERSION, FORMAT_VERSION, read_sweep_config, write_sweep_config

CONFIG = SweepConfig(activations=ActivationConfig(hook_points="3"), scale=Scale(mean_penalty=0.0), grid=Grid())


@pytest.mark.parametrize("version", range(2, FORMAT_VERSION))
def test_fields_that_earlier_sweeps_lack_have_the_value_of_that_time(version: int, tmp_path: Path) -> None:
    write_sweep_config(CONFIG, tmp_path)
    assert read_sweep_config(tmp_path) == CONFIG
    path = tmp_path / "sweep.json"
    record = json.loads(path.read_text())
    for later in (name for number, added in ADDED_BY_VERSION.items() if number > version for name in added):
        del record["scale"][later]
    path.write_text(json.dumps(record | {"format_version": version}))
    assert read_sweep_config(tmp_path) == CONFIG
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="lacks the keys"):
        read_sweep_config(tmp_path)
