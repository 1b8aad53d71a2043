"""A report as a file, its kind chosen by the name's ending."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from quadric._io.csv import csv_text
from quadric._io.files import check_endings, write_atomically
from quadric.studies.reports.heat_map import comparison_as_png
from quadric.studies.reports.run_comparison import RunComparison
from quadric.studies.reports.run_report import RunReport


def _json(report: RunReport | RunComparison) -> bytes:
    return (json.dumps(report.as_json(), ensure_ascii=False, allow_nan=False) + "\n").encode()


def _csv(report: RunReport) -> bytes:
    columns = report.columns()
    return csv_text(list(columns), zip(*columns.values(), strict=True)).encode()


_WRITERS: dict[str, Callable[[RunReport], bytes]] = {".csv": _csv, ".json": _json}
_COMPARISON_WRITERS: dict[str, Callable[[RunComparison], bytes]] = {".json": _json, ".png": comparison_as_png}


def write_report(report: RunReport, path: Path) -> None:
    """Write everything (.json) or the table of latents (.csv), chosen by the ending of the path."""
    check_report_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _WRITERS[path.suffix](report))


def write_comparison(comparison: RunComparison, path: Path) -> None:
    """Write heat maps (.png) or everything (.json), chosen by the ending of the path."""
    check_comparison_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _COMPARISON_WRITERS[path.suffix](comparison))


def check_comparison_paths(paths: Iterable[Path]) -> None:
    """Refuse a path that `write_comparison` cannot write."""
    check_endings(paths, _COMPARISON_WRITERS)


def check_report_paths(paths: Iterable[Path]) -> None:
    """Refuse a path that `write_report` cannot write, before anything is computed."""
    check_endings(paths, _WRITERS)
