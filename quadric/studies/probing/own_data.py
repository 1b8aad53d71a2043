"""A user's own labelled texts: a .csv or .jsonl file with one text and one label per row."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quadric._io.files import shown
from quadric.studies.probing.labelled import LabelKind, LabelledSet

TEXT_FIELDS = ("text", "prompt")
LABEL_FIELDS = ("label", "target")
ENDINGS = (".csv", ".jsonl")


def read_labelled(
    path: str | Path,
    *,
    text_field: str | None = None,
    label_field: str | None = None,
    period: int | float | None = None,
) -> LabelledSet:
    """Read labelled texts from a file.

    Labels with two values are binary: of two words, the later in the alphabet is 1. More than two numbers are
    continuous, or cyclic if there is a period.

    Args:
        path: A .csv file with a header, or a .jsonl file with one object per line; UTF-8.
        text_field: Column of the texts; by default `text` or `prompt`.
        label_field: Column of the labels; by default `label` or `target`.
        period: Length of the cycle that the labels are on, e.g. 360 for degrees.

    Returns:
        The set, named after the file.

    Example:
        >>> rows = ["review,stars", "fine,4.5", "poor,1.0", "good,4.0", "bad,1.5"]
        >>> length = Path("reviews.csv").write_text("\\n".join(rows))
        >>> read_labelled("reviews.csv", text_field="review", label_field="stars")
        LabelledSet('reviews': 4 rows, continuous)
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise ValueError(f"'{path}' ends in '{path.suffix}'; give a file that ends in {' or '.join(ENDINGS)}")
    if not path.is_file():
        raise FileNotFoundError(f"no file '{path}'; give a .csv or .jsonl file with texts and labels")
    records = list(_records(path))
    if not records:
        raise ValueError(f"{path} has no rows; give at least some texts with labels")
    text_field = _field(path, records[0], text_field, TEXT_FIELDS, "texts", "--text-field")
    label_field = _field(path, records[0], label_field, LABEL_FIELDS, "labels", "--label-field")
    pairs = [_pair(record, text_field, label_field, f"{path}, row {n}") for n, record in enumerate(records, 1)]
    return _labelled(path, [text for text, _ in pairs], [label for _, label in pairs], period)


def _labelled(path: Path, texts: list[str], labels: list[str], period: int | float | None) -> LabelledSet:
    numbers = [_number(label) for label in labels]
    values = sorted(set(labels)) if None in numbers else sorted({each for each in numbers if each is not None})
    about, source = f"{path.name}", str(path)
    if len(values) == 2 and period is None:
        given: list[Any] = labels if None in numbers else numbers
        binary = [float(each == values[1]) for each in given]
        about = f"{path.name}: {shown(values[1])} and not {shown(values[0])}"
        return LabelledSet(name=path.stem, kind="binary", texts=texts, labels=binary, about=about, source=source)
    if None in numbers:
        bad = labels[numbers.index(None)]
        raise ValueError(
            f"{path} has {len(values)} different labels, and {shown(bad)} is not a number; give two classes, or numbers"
        )
    found = [each for each in numbers if each is not None]
    kind: LabelKind = "continuous" if period is None else "cyclic"
    return LabelledSet(name=path.stem, kind=kind, texts=texts, labels=found, period=period, about=about, source=source)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix == ".csv":
                yield from csv.DictReader(file, strict=True)
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(line, f"{path}, line {number}")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 (byte {problem.start}); convert it first") from None
    except csv.Error as problem:
        raise ValueError(f"{path} is not a CSV file ({problem}); write it again") from None


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is not JSON; use one object per line") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where} is not a JSON object; use one object per line")
    return record


def _field(path: Path, record: dict[str, Any], given: str | None, usual: tuple[str, ...], what: str, flag: str) -> str:
    there = [str(name) for name in record]
    for name in usual if given is None else (given,):
        if name in record:
            return name
    missing = f"no column {given!r}" if given is not None else f"no column named {' or '.join(usual)}"
    raise ValueError(f"{path} has {missing} for the {what}; choose one with {flag}: {', '.join(there) or 'none'}")


def _pair(record: dict[str, Any], text_field: str, label_field: str, where: str) -> tuple[str, str]:
    text, label = record.get(text_field), record.get(label_field)
    if not isinstance(text, str):
        raise ValueError(f"{where} has no text in '{text_field}' ({shown(text)}); give a string")
    if label is None or isinstance(label, list | dict) or not str(label).strip():
        raise ValueError(f"{where} has no label in '{label_field}' ({shown(label)}); give a word or a number")
    return text, str(label).strip()


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None
