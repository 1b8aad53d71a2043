"""Write evaluations to files; the file extension selects the format."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quadric._io.csv import csv_of_rows
from quadric._io.files import check_endings, read_json, write_atomically
from quadric.evaluation.record import Evaluation

ENDINGS = (".csv", ".json")
IN_RUN = "evaluation.json"
"""File in a run folder with the latest evaluation of its autoencoders."""


def check_evaluation_paths(paths: Iterable[Path]) -> None:
    """Raise an error for a path that `write_evaluations` does not support, before anything is computed."""
    check_endings(paths, ENDINGS)


def write_evaluations(found: list[Evaluation], path: Path) -> None:
    """Write the table (.csv), or the table and the error by position (.json)."""
    check_evaluation_paths([path])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        csv_of_rows([each.as_row() for each in found])
        if path.suffix == ".csv"
        else json.dumps([each.as_json() for each in found], indent=1) + "\n"
    )
    write_atomically(path, text.encode())


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
