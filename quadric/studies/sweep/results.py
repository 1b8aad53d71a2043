"""Rows on disk: one small file per cell, so that no cell is lost or measured twice, and all rows as one table."""

import io
import json
from pathlib import Path

from quadric._io.csv import csv_of_rows
from quadric._io.files import read_json, write_atomically
from quadric.studies.sweep.rows import Row

ROWS = "rows"
TABLE = "results"


def row_path(folder: Path, cell: str) -> Path:
    """Path of a cell's row."""
    return folder / ROWS / f"{cell}.json"


def write_row(folder: Path, row: Row) -> None:
    """Store the row of a finished cell."""
    path = row_path(folder, row["cell"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(row, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode())


def read_rows(folder: Path) -> list[Row]:
    """Rows of all finished cells, sorted by layer, kind, alpha and seed.

    Args:
        folder: Of the sweep.

    Returns:
        One dictionary of column names and values per cell.

    Example:
        >>> from quadric.studies.sweep import read_rows
        >>> [(row["layer"], row["kind"], row["n_latents"]) for row in read_rows(Path("runs/sweep"))]
        [(2, 'composite', 24), (2, 'topk', 24)]
    """
    rows = [_read(path) for path in sorted((folder / ROWS).glob("*.json"))]
    return sorted(rows, key=lambda row: (row["layer"], row["kind"], row["alpha"] or 0.0, row["seed"], row["cell"]))


def _read(path: Path) -> Row:
    remedy = "delete it and run quadric sweep to measure the cell again"
    row = read_json(path, remedy)
    if not isinstance(row, dict) or not row.keys() >= {"layer", "kind", "alpha", "seed", "cell"}:
        raise ValueError(f"{path} is not a row of a sweep; {remedy}")
    return row


def write_table(folder: Path, rows: list[Row]) -> list[Path]:
    """Write all rows to results.parquet and results.csv; returns both paths."""
    paths = [folder / f"{TABLE}.parquet", folder / f"{TABLE}.csv"]
    write_atomically(paths[0], _parquet(rows))
    write_atomically(paths[1], as_csv(rows).encode())
    return paths


def _parquet(rows: list[Row]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in columns(rows)}), buffer)
    return buffer.getvalue()


def columns(rows: list[Row]) -> list[str]:
    """Union of the rows' columns, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: list[Row]) -> str:
    """The rows as CSV with a header."""
    return csv_of_rows(rows)
