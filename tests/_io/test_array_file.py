"""Arrays in safetensors files."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from quadric._io.array_file import read_arrays, write_arrays


def test_arrays_are_safetensors_that_others_read(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array([0.5]), "c": np.zeros((0, 3), np.float32)}
    write_arrays(tmp_path / "x.safetensors", arrays, {"cursor": "{}"})
    for found in (load_file(tmp_path / "x.safetensors"), read_arrays(tmp_path / "x.safetensors").arrays):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
    assert read_arrays(tmp_path / "x.safetensors").metadata == {"cursor": "{}"}
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(ValueError, match=r"x\.safetensors is damaged .*; delete it and write it again"):
        read_arrays(tmp_path / "x.safetensors")
