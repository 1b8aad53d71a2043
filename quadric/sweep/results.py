"""Rows on disk: one small file a cell, so that none is lost or made twice, and all of them as one table."""

import csv
import io
import json
from pathlib import Path

from quadric._files import write_atomically
from quadric.sweep.rows import Row

ROWS = "rows"
TABLE = "results"


def row_path(folder: Path, cell: str) -> Path:
    """Where the row of a cell is kept."""
    return folder / ROWS / f"{cell}.json"


def write_row(folder: Path, row: Row) -> None:
    """Keep the row of a finished cell."""
    path = row_path(folder, row["cell"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(row, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode())


def read_rows(folder: Path) -> list[Row]:
    """The rows of all finished cells: by layer, kind, alpha and seed."""
    rows = [_read(path) for path in sorted((folder / ROWS).glob("*.json"))]
    return sorted(rows, key=lambda row: (row["layer"], row["kind"], row["alpha"] or 0.0, row["seed"], row["cell"]))


def _read(path: Path) -> Row:
    try:
        row: Row = json.loads(path.read_bytes())
    except ValueError as problem:
        raise ValueError(
            f"{path} is not valid JSON ({problem}); delete it, and quadric sweep measures it anew"
        ) from None
    return row


def write_table(folder: Path, rows: list[Row]) -> list[Path]:
    """results.parquet and results.csv with all rows; returns both."""
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
    """Every column that any row has, in the order in which rows have them."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: list[Row]) -> str:
    """The rows as comma-separated text with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
