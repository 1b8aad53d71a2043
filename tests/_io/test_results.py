"""Files that the user names: each ending its own content, mistakes before any work."""

import json
from pathlib import Path

import pytest

from quadric._io import results
from quadric._io.results import check_endings, json_text, write_result


def test_the_ending_decides_the_content(tmp_path):
    contents = {".csv": lambda: "é\n", ".json": lambda: json_text(["é", 1.5]), ".png": lambda: b"\x89"}
    for ending in contents:
        write_result(tmp_path / "deep" / f"file{ending}", contents)
    assert (tmp_path / "deep/file.csv").read_text(encoding="utf-8") == "é\n"
    assert json.loads((tmp_path / "deep/file.json").read_text(encoding="utf-8")) == ["é", 1.5]
    assert (tmp_path / "deep/file.png").read_bytes() == b"\x89"
    with pytest.raises(ValueError, match=r"choose one of .csv, .json, .png"):
        write_result(tmp_path / "file.txt", contents)


def test_numbers_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([float("nan")])


def test_wrong_paths_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"'x.txt' ends in '.txt'; choose one of .csv, .json"):
        check_endings([Path("x.txt")])
    with pytest.raises(ValueError, match=r"'x.csv' ends in '.csv'; choose one of .json, .png"):
        check_endings([Path("x.csv")], [".png", ".json"])
    with pytest.raises(ValueError, match=r"'x.html': only quadric site writes HTML; .* or choose one of .csv, .json"):
        check_endings([Path("x.html")])
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_endings([tmp_path / "folder.json"])
    monkeypatch.setattr(results, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs matplotlib; install it with: pip install 'quadric\[figures\]'"):
        check_endings([Path("x.png")], [".png"])
