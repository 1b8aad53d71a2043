"""No cell of a CSV is a formula, and numbers stay numbers."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric._io.csv import csv_of_rows, csv_text, harmless

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
