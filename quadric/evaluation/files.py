"""Write evaluations to files; the file extension selects the format."""

import json
from pathlib import Path
from typing import Any

from quadric._io.files import read_json
from quadric._io.results import csv_of_rows, write_result
from quadric.evaluation.record import Evaluation

IN_RUN = "evaluation.json"
"""File in a run folder with the latest evaluation of its autoencoders."""


def write_evaluations(found: list[Evaluation], path: Path) -> None:
    """Write the table (.csv), or the table and the error by position (.json)."""
    write_result(
        path,
        {
            ".csv": lambda: csv_of_rows([each.as_row() for each in found]),
            ".json": lambda: json.dumps([each.as_json() for each in found], indent=1) + "\n",
        },
    )


def keep_in_runs(found: list[Evaluation]) -> None:
    """Store each evaluation in its run folder, where the site reads it. A lone autoencoder has no run folder."""
    for run in dict.fromkeys(each.run for each in found):
        if (Path(run) / "run.json").is_file():
            write_evaluations([each for each in found if each.run == run], Path(run) / IN_RUN)


def kept_in_run(run: Path, name: str) -> dict[str, Any] | None:
    """Latest stored evaluation of one autoencoder of a run, or None."""
    path = run / IN_RUN
    remedy = "delete it, or run quadric evaluate again"
    rows = read_json(path, remedy) if path.is_file() else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} is not a list of evaluations; {remedy}")
    return next((row for row in rows if row.get("name") == name), None)
