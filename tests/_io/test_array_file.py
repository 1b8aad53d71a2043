"""Arrays in safetensors files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from quadric._io.array_file import load_stored, read_arrays, store_arrays, write_arrays


def test_arrays_are_safetensors_that_others_read(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array([0.5]), "c": np.zeros((0, 3), np.float32)}
    arrays |= {"columns first": np.arange(6.0).reshape(2, 3).T, "one number": np.array(7)}
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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), r"'a-.*' named by .*record\.json is missing; make it again"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), r"has \d+ bytes, expected \d+; make it again"),
        (
            lambda path: path.write_bytes(b"\0" * path.stat().st_size),
            "its sha256 is not the recorded one; make it",
        ),
    ],
)
def test_a_stored_file_is_the_one_that_its_record_describes(tmp_path: Path, damage: Any, message: str) -> None:
    stored = store_arrays(tmp_path, "a", {"x": np.arange(3)})
    np.testing.assert_array_equal(load_stored(tmp_path, stored, tmp_path / "record.json", "")["x"], np.arange(3))
    damage(tmp_path / stored["file"])
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_stored(tmp_path, stored, tmp_path / "record.json", "make it again")


def test_a_record_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    stored = store_arrays(tmp_path, "a", {"x": np.arange(3)})
    with pytest.raises(FileNotFoundError, match="is missing"):
        load_stored(tmp_path / "folder", {**stored, "file": "../" + stored["file"]}, tmp_path / "record.json", "")
