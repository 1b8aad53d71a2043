"""Arrays in safetensors files."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from quadric._io.array_file import load_stored, read_arrays, replaced_arrays, write_arrays
from quadric._io.files import write_json
from quadric._io.own_files import RECORD


def stored_in(folder: Path, array: np.ndarray) -> dict[str, Any]:
    with replaced_arrays(folder, "about.json", "about") as store:
        stored = store("a", {"x": array})
        write_json(folder / "about.json", {"format": "about", "a": stored})
    return stored


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
    stored = stored_in(tmp_path, np.arange(3))
    np.testing.assert_array_equal(load_stored(tmp_path, stored, tmp_path / "record.json", "")["x"], np.arange(3))
    damage(tmp_path / stored["file"])
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_stored(tmp_path, stored, tmp_path / "record.json", "make it again")


def test_a_record_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    stored = stored_in(tmp_path, np.arange(3))
    with pytest.raises(FileNotFoundError, match="is missing"):
        load_stored(tmp_path / "folder", {**stored, "file": "../" + stored["file"]}, tmp_path / "record.json", "")


MINE = ("a-2024.safetensors", "a-0123456789ab.safetensors", "notes.txt")


def test_only_files_that_were_written_here_are_deleted(tmp_path: Path) -> None:
    for name in MINE:
        (tmp_path / name).write_bytes(b"mine")
    first, second = stored_in(tmp_path, np.arange(3)), stored_in(tmp_path, np.arange(4))
    assert {path.name for path in tmp_path.iterdir()} == {*MINE, "about.json", RECORD, second["file"]}
    assert first["file"] != second["file"]
    assert all((tmp_path / name).read_bytes() == b"mine" for name in MINE)


def test_files_of_a_killed_process_and_of_an_earlier_quadric_are_ours(tmp_path: Path) -> None:
    first = stored_in(tmp_path, np.arange(3))
    (tmp_path / RECORD).unlink()  # an earlier Quadric wrote none
    with suppress(KeyboardInterrupt), replaced_arrays(tmp_path, "about.json", "about") as store:
        store("a", {"x": np.arange(4)})
        raise KeyboardInterrupt
    assert len(list(tmp_path.glob("a-*"))) == 2
    assert load_stored(tmp_path, first, tmp_path / "about.json", "")["x"].shape == (3,)
    third = stored_in(tmp_path, np.arange(5))
    assert [path.name for path in tmp_path.glob("a-*")] == [third["file"]]


def test_a_description_that_somebody_else_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text('{"title": "my thesis"}')
    with pytest.raises(FileExistsError, match=r"about\.json' was not made by Quadric; move it, or name another folder"):
        stored_in(tmp_path, np.arange(3))
    assert [path.name for path in tmp_path.iterdir()] == ["about.json"]


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    stored = stored_in(folder, np.arange(3))
    np.testing.assert_array_equal(load_stored(folder, stored, folder / "about.json", "")["x"], np.arange(3))
