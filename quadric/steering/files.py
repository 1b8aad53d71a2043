"""Steering curves as files; the file extension selects the format."""

import json
from collections.abc import Iterable
from pathlib import Path

from quadric._csv import csv_of_rows
from quadric._files import write_atomically
from quadric.reports.files import check_endings
from quadric.steering.curve import SteeringCurve

ENDINGS = (".csv", ".json")


def check_curve_paths(paths: Iterable[Path]) -> None:
    """Raise an error for a path that `write_curve` does not support, before anything is computed."""
    check_endings(paths, ENDINGS)


def write_curve(curve: SteeringCurve, path: Path) -> None:
    """Write one row per method, value and seed (.csv), or everything (.json)."""
    check_curve_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        csv_of_rows(curve.as_rows())
        if path.suffix == ".csv"
        else json.dumps(curve.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    )
    write_atomically(path, text.encode())
