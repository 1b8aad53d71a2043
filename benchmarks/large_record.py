"""Record of `make reproduce-large`: everything that was measured, as one file beside the page.

The work folder has gigabytes of activations and weights and stays on one machine. The record is committed with the
page, so that another machine goes on with the cells that are missing: it does not train a measured cell again, and its
page has the earlier cells too. Only comparisons need weights; `--again` trains the cells of a comparison once more.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from large_cells import Settings, name_of
from large_comparisons import RANDOM

from quadric._io.files import read_json, write_json
from quadric.data.corpus import CorpusConfig
from quadric.run.config import RunConfig
from quadric.run.scales import PAPER

NAME = "measured.json"
PARTS = ("rows", "curves", "linear", "comparisons", "over_training")
"""Folders of the work folder whose files are small."""
FLOOR = "floor.json"
REMEDY = "restore it from git, or delete it to measure all cells again"
BEFORE_THE_CHOICE = {
    "learning_rate": PAPER.learning_rate, "learning_rate_decay": PAPER.learning_rate_decay, "alpha_warmup_steps": None,
}  # fmt: skip
"""Settings that records lack which were made before there was a choice."""
SCHEDULING = ("checkpoint_every",)
"""Settings on which neither the cells nor their results depend."""


def write_record(configs: list[RunConfig], settings: Settings, work: Path, results: Path) -> None:
    """Store the measurements of these cells beside the page."""
    names = set(map(name_of, configs))
    files = [path for part in PARTS for path in sorted((work / part).glob("*.json"))]
    found = {path: json.loads(path.read_text()) for path in files}
    measured = {
        path.relative_to(work).as_posix(): each for path, each in found.items() if _cells_of(path, each) <= names
    }
    if (work / FLOOR).is_file():
        measured[FLOOR] = json.loads((work / FLOOR).read_text())
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / NAME, {"settings": _comparable(settings), "measured": measured})


def _cells_of(path: Path, measured: dict[str, Any]) -> set[str]:
    """The cell that a file is about, or both of a comparison."""
    return {measured[key] for key in ("first", "second") if key in measured} - {RANDOM} or {path.stem}


def read_record(settings: Settings, results: Path) -> dict[str, Any]:
    """All recorded measurements, by their paths in the work folder; none without a record.

    More `widths` than recorded add cells; fewer would drop some.

    Raises:
        ValueError: the record is one of other settings, whose page would be lost.
    """
    path = results / NAME
    if not path.is_file():
        return {}
    record = read_json(path, REMEDY)
    stored, asked = BEFORE_THE_CHOICE | record["settings"], _comparable(settings)
    if set(stored["widths"]) <= set(asked["widths"]):
        stored["widths"] = asked["widths"]
    if different := [name for name in asked if stored.get(name) != asked[name]]:
        values = ", ".join(f"{name}={stored.get(name)}, now {asked[name]}" for name in different)
        raise ValueError(f"'{path}' was measured with other settings ({values}); give the same, or another --results")
    measured: dict[str, Any] = record["measured"]
    return measured


def read_settings(record: dict[str, Any]) -> Settings:
    """The settings that a record was measured with."""
    stored = BEFORE_THE_CHOICE | record["settings"]
    stored |= {"corpus": CorpusConfig(**stored["corpus"]), "widths": tuple(stored["widths"])}
    return Settings(**stored, checkpoint_every=1)  # not recorded: no result depends on it


def recorded_cells(record: dict[str, Any]) -> set[str]:
    """Names of the cells that a record has rows of."""
    return {Path(name).stem for name in record if name.startswith("rows/")}


def restore_record(record: dict[str, Any], work: Path) -> None:
    """Put measurements of another machine into the work folder, unless it has its own."""
    for name, found in record.items():
        if not (work / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            write_json(work / name, found)


def _comparable(settings: Settings) -> dict[str, Any]:
    """The settings on which the result of a cell depends, as JSON has them."""
    named = {name: value for name, value in asdict(settings).items() if name not in SCHEDULING}
    # The folder of a model file is one machine's own.
    found: dict[str, Any] = json.loads(json.dumps(named | {"model": Path(settings.model).name}))
    return found
