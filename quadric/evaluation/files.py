"""Evaluations as files, their kind chosen by the name's ending."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quadric._files import write_atomically
from quadric.evaluation.record import Evaluation
from quadric.reports.files import check_endings

ENDINGS = (".csv", ".json")
IN_RUN = "evaluation.json"
"""Where a run folder keeps the last evaluation of its autoencoders."""


def check_evaluation_paths(paths: Iterable[Path]) -> None:
    """Refuse a path that `write_evaluations` could not serve, before anything is computed for it."""
    check_endings(paths, ENDINGS)


def write_evaluations(found: list[Evaluation], path: Path) -> None:
    """Write the table (.csv) or everything (.json)."""
    check_evaluation_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _csv(found) if path.suffix == ".csv" else json.dumps([each.as_json() for each in found], indent=1) + "\n"
    write_atomically(path, text.encode())


def _csv(found: list[Evaluation]) -> str:
    rows = [each.as_row() for each in found]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def keep_in_runs(found: list[Evaluation]) -> None:
    """Leave every evaluation in the folder of its run, for the site to show; a lone autoencoder has none."""
    for run in dict.fromkeys(each.run for each in found):
        if (Path(run) / "run.json").is_file():
            write_evaluations([each for each in found if each.run == run], Path(run) / IN_RUN)


def kept_in_run(run: Path, name: str) -> dict[str, Any] | None:
    """What the last evaluation of a run says about one of its autoencoders, if there was one."""
    path = run / IN_RUN
    rows = json.loads(path.read_bytes()) if path.is_file() else []
    return next((row for row in rows if row["name"] == name), None)
