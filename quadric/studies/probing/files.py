"""The folder of a probing: everything as JSON, tables as CSV and Markdown, the figure, and activations read before."""

from pathlib import Path

from quadric._io.csv import csv_of_rows
from quadric._io.files import write_atomically, write_json
from quadric.studies.probing.record import Probing
from quadric.studies.probing.report import report_of
from quadric.studies.probing.summary import set_rows, summary_of

VECTORS = "vectors"
"""Folder of the activations, which a second probing of the same texts and hook point reads instead of the model."""


def check_folder(folder: Path) -> None:
    """Raise if this is a file, before anything is computed."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file; give a folder with --out")


def write_probing(found: Probing, folder: Path) -> list[Path]:
    """Write probing.json, probes.csv, sets.csv, regressions.csv, report.md and, with matplotlib, the figure.

    Args:
        found: What was measured.
        folder: Where to; it is made if it is missing.

    Returns:
        The paths.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "probing.json"]
    write_json(paths[0], found.as_json())
    tables = {
        "probes": [row.as_row() for row in found.rows],
        "regressions": [row.as_row() for row in found.regressions],
        "sets": set_rows(found),
    }
    for name, rows in tables.items():
        if rows:
            paths.append(folder / f"{name}.csv")
            write_atomically(paths[-1], csv_of_rows(rows).encode())
    paths.append(folder / "report.md")
    write_atomically(paths[-1], report_of(found).encode())
    return paths + _draw(found, folder)


def _draw(found: Probing, folder: Path) -> list[Path]:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return []
    from quadric.studies.figures.probing import draw
    from quadric.studies.figures.style import save, styled

    with styled():
        drawn = draw(summary_of(found), found.settings["poolings"][0])
    return save(drawn, folder, "probing")
