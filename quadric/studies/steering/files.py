"""Steering curves and ablations as files; the file extension selects the format."""

from collections.abc import Sequence
from pathlib import Path

from quadric._io.csv import csv_of_rows
from quadric._io.results import json_text, write_result
from quadric.studies.steering.ablation import AblationRow
from quadric.studies.steering.curve import SteeringCurve


def write_curve(curve: SteeringCurve, path: Path) -> None:
    """Write one row per method, value and seed (.csv), or everything (.json)."""
    write_result(
        path, {".csv": lambda: csv_of_rows(curve.as_rows()), ".json": lambda: json_text(curve.as_json(), indent=1)}
    )


def write_ablation(rows: Sequence[AblationRow], path: Path) -> None:
    """Write one row per latent, as .csv or .json."""
    flat = [row.as_row() for row in rows]
    write_result(path, {".csv": lambda: csv_of_rows(flat), ".json": lambda: json_text(flat, indent=1)})
