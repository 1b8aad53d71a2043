"""A folder says which of its files are ours."""

import json
from pathlib import Path

import pytest

from quadric._io.own_files import RECORD, file_record, files_in, own_files, record_files


def test_what_is_recorded_is_ours_and_the_record_too(tmp_path: Path) -> None:
    assert own_files(tmp_path) == set()
    assert file_record(tmp_path).files == []
    record_files(tmp_path, ["b.st", "data/a.st"], {"mine": "abc"})
    assert own_files(tmp_path) == {RECORD, "b.st", "data/a.st"}
    assert file_record(tmp_path).weights == {"mine": "abc"}


def test_files_and_links_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "data/empty").mkdir(parents=True)
    (tmp_path / "data/a.st").touch()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert files_in(tmp_path) == {"data/a.st", "link"}


@pytest.mark.parametrize("name", ["../thesis.txt", "/etc/passwd", "data/../../thesis.txt", "", "a\0"])
def test_a_record_cannot_name_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    record_files(tmp_path, [name])
    with pytest.raises(ValueError, match=r"quadric-files\.json names .*, which is not in its folder; delete it if"):
        own_files(tmp_path)


@pytest.mark.parametrize("damage", ["[]", "{", '{"format": "quadric-files", "format_version": 1}'])
def test_a_damaged_record_is_one_line(tmp_path: Path, damage: str) -> None:
    (tmp_path / RECORD).write_text(damage)
    with pytest.raises(ValueError, match=r"quadric-files\.json") as caught:
        own_files(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_newer_record_is_refused(tmp_path: Path) -> None:
    record_files(tmp_path, [])
    values = json.loads((tmp_path / RECORD).read_text())
    (tmp_path / RECORD).write_text(json.dumps({**values, "format_version": 2}))
    with pytest.raises(ValueError, match="upgrade with"):
        own_files(tmp_path)
