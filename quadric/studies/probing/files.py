"""The folder of a probing: everything as JSON, tables as CSV and Markdown, the figure, and activations read before."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quadric._io.files import write_atomically, write_json
from quadric._io.results import csv_of_rows
from quadric.studies.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Drawn,
    panels,
    save,
    styled,
)
from quadric.studies.probing.report import report_of
from quadric.studies.probing.results import Probing, Summary, set_rows, summary_of
from quadric.studies.sweep.rows import Row

VECTORS = "vectors"
"""Folder of the activations, which a second probing of the same texts and hook point reads instead of the model."""
COLOURS = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)
MARKERS = ("o", "s", "^", "x", "+", "D", "v", "*")


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
    if find_spec("matplotlib") is None:
        return []

    with styled():
        drawn = draw_probing(summary_of(found), found.settings["poolings"][0])
    return save(drawn, folder, "probing")


def draw_probing(summary: Summary, pooling: str) -> Drawn:
    """Mean AUC over sets for every number of features, and mean R² of every kind of features."""
    wanted = [name for name in ("auc", "r2") if getattr(summary, name)]
    figure, (axes,) = panels(1, max(1, len(wanted)), 3.6)
    rows: list[Row] = []
    for place, name in zip(axes, wanted, strict=False):
        rows += _curves(place, summary, pooling) if name == "auc" else _bars(place, summary, pooling)
    return Drawn(figure, rows)


def _curves(axes: Any, summary: Summary, pooling: str) -> list[Row]:
    means = [each for each in summary.auc if each.pooling == pooling]
    counts = list(dict.fromkeys(each.count for each in means))
    labels = list(dict.fromkeys(each.label for each in means))
    rows: list[Row] = []
    for number, label in enumerate(labels):
        own = [each for each in means if each.label == label]
        look = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
        }
        dashes = ("-", "--", ":")[number // len(COLOURS) % 3]
        places = [counts.index(each.count) for each in own]
        axes.plot(places, [each.value.mean for each in own], dashes, label=label, **look)
        rows += [{"panel": "auc", "label": label, "count": each.count, **each.value._asdict()} for each in own]
    axes.set_xticks(range(len(counts)), ["all" if count is None else str(count) for count in counts])
    axes.set_xlabel("features that the probe may use")
    axes.set_ylabel("area under the curve, mean over sets")
    axes.legend(fontsize=6)
    return rows


def _bars(axes: Any, summary: Summary, pooling: str) -> list[Row]:
    means = [each for each in summary.r2 if each.pooling == pooling]
    for place, each in enumerate(reversed(means)):
        half = each.value.high - each.value.mean
        axes.errorbar(max(each.value.mean, -1), place, xerr=half, color=BLACK, marker="o", capsize=2)
    axes.axvline(0, color="#bbbbbb", lw=0.7, zorder=0)
    axes.set_yticks(range(len(means)), [each.label for each in reversed(means)], fontsize=6)
    axes.set_xlim(left=-1)
    axes.set_xlabel("R², mean over continuous and cyclic labels")
    return [{"panel": "r2", "label": each.label, **each.value._asdict()} for each in means]
