"""Steering curves and ablations as files; the file extension selects the format."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from quadric._io.csv import csv_of_rows
from quadric._io.files import check_endings, write_atomically
from quadric.studies.steering.ablation import AblationRow
from quadric.studies.steering.curve import SteeringCurve

ENDINGS = (".csv", ".json")


def check_curve_paths(paths: Iterable[Path]) -> None:
    """Raise an error for a path that cannot be written in any format, before anything is computed."""
    check_endings(paths, ENDINGS)


def write_curve(curve: SteeringCurve, path: Path) -> None:
    """Write one row per method, value and seed (.csv), or everything (.json)."""
    _write(path, curve.as_rows(), curve.as_json())


def write_ablation(rows: Sequence[AblationRow], path: Path) -> None:
    """Write one row per latent, as .csv or .json."""
    flat = [row.as_row() for row in rows]
    _write(path, flat, flat)


def _write(path: Path, rows: Sequence[dict[str, Any]], everything: Any) -> None:
    check_curve_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    as_json = json.dumps(everything, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, (csv_of_rows(rows) if path.suffix == ".csv" else as_json).encode())
