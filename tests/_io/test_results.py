"""Files that the user names: each ending its own content, mistakes before any work."""

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import quadric
from quadric._io import results
from quadric._io.results import (
    check_endings,
    csv_of_rows,
    csv_text,
    facts_table,
    harmless,
    json_text,
    rows_table,
    write_result,
)


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


STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@pytest.mark.parametrize("start", STARTS)
def test_text_that_would_be_run_gets_an_apostrophe(start: str) -> None:
    text = f'{start}HYPERLINK("http://evil")'
    ((header,), (cell,)) = csv.reader(io.StringIO(csv_text([text], [[text]]), newline=""))
    assert header == cell == f"'{text}"


@pytest.mark.parametrize("number", [-0.5, -3, 1e-30, float("-inf"), 0, True, None])
def test_numbers_are_not_changed(number: object) -> None:
    assert harmless(number) is number
    assert csv_text(["n", "m"], [[number, 1]]).split("\n")[1] == f"{'' if number is None else number},1"


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.floats(allow_nan=False)), min_size=1))
def test_rows_read_back_and_none_begins_a_formula(rows: list[tuple[str, float]]) -> None:
    text = csv_text(["label", "value"], rows, quote_text=True)
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    for (label, value), row in zip(rows, found, strict=True):
        assert not row["label"].startswith(STARTS)
        assert row["label"].removeprefix("'") == label.removeprefix("'")
        assert float(row["value"]) == value


def test_a_column_that_a_row_lacks_is_empty() -> None:
    assert csv_of_rows([{"a": 1}, {"b": "=x"}]) == "a,b\n1,\n,'=x\n"


def test_tables_escape_what_they_show() -> None:
    assert "<b>" not in facts_table("<b>", {"<b>": "<b>"}) + rows_table("<b>", ["<b>"], [["<b>"]])
    assert "&lt;b&gt;" in facts_table("t", {"a": "<b>"})


def test_a_dictionary_and_its_evaluation_are_shown_as_tables() -> None:
    ae = quadric.TopK(n_latents=16, n_active=3).build(8)
    assert "<th>n_active</th><td>3</td>" in ae._repr_html_()
    shown = quadric.evaluate(ae, torch.randn(300, 8))._repr_html_()
    assert "<th>error</th>" in shown
    assert "topk with 16 latents" in shown
