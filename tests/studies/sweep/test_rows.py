"""Rows on disk, and the table built from them."""

from pathlib import Path

import pytest
from pyarrow import parquet

from quadric.studies.sweep.rows import read_rows, row_path, write_row, write_table

ROW = {"cell": "a", "layer": 3, "kind": "composite", "alpha": 0.3, "seed": 0, "error": 0.25}
BASELINE = {"cell": "b", "layer": 3, "kind": "topk", "alpha": None, "seed": 0, "error": 0.5, "spliced": 7}


def test_rows_are_read_in_the_order_of_the_table(tmp_path: Path) -> None:
    shallow = ROW | {"cell": "z", "layer": 1}
    for row in (BASELINE, ROW, shallow):
        write_row(tmp_path, row)
    assert read_rows(tmp_path) == [shallow, ROW, BASELINE]


def test_missing_values_are_empty_cells(tmp_path: Path) -> None:
    paths = write_table(tmp_path, [ROW, BASELINE])
    assert parquet.read_table(paths[0]).to_pylist() == [ROW | {"spliced": None}, BASELINE]
    assert paths[1].read_text().splitlines() == [
        "cell,layer,kind,alpha,seed,error,spliced",
        "a,3,composite,0.3,0,0.25,",
        "b,3,topk,,0,0.5,7",
    ]


def test_nan_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_row(tmp_path, ROW | {"error": float("nan")})


def test_error_for_a_damaged_row_names_file_and_remedy(tmp_path: Path) -> None:
    write_row(tmp_path, ROW)
    row_path(tmp_path, "a").write_text("{")
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON .*; delete it"):
        read_rows(tmp_path)
