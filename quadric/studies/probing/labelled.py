"""Labelled data, texts or rows of activations with one label each: checked, read from a file, sampled and split."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.files import shown

LabelKind = Literal["binary", "continuous", "cyclic"]
LABEL_KINDS: tuple[LabelKind, ...] = ("binary", "continuous", "cyclic")
TEST_SHARE = 1 / 3
FOLDS = 3
"""Folds of continuous and cyclic labels; each third of the rows is predicted from the other two."""
GROUP_FOLDS = 6
"""Folds of sets with groups, which have few of them: with three, four weekdays would have to predict three."""
FEWEST_ROWS = 24
"""Below this, a third of the rows says nothing."""
FEWEST_OF_A_CLASS = 8

Array = np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelledSet:
    """Texts, or rows of activations, and one label for each.

    Example:
        >>> from quadric.studies.probing import LabelledSet
        >>> LabelledSet(name="sign", kind="binary", vectors=torch.randn(40, 8), labels=[0, 1] * 20)
        LabelledSet('sign': 40 rows, binary)
    """

    name: str
    kind: LabelKind
    labels: Sequence[int | float]
    """0 or 1 (binary), a number (continuous), or a position on a cycle of length `period` (cyclic)."""
    texts: Sequence[str] | None = None
    vectors: Tensor | None = None
    """Activations (n, d) instead of texts, one per row."""
    period: int | float | None = None
    """Length of the cycle, e.g. 7 for weekdays or 360 for degrees."""
    groups: Sequence[int] | None = None
    """Rows of one group are never on both sides of a split."""
    about: str = ""
    """What the label means, or what 1 means."""
    source: str = ""
    """Where the data is from, and its terms."""

    def __post_init__(self) -> None:
        check_set(self)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"LabelledSet({self.name!r}: {len(self)} rows, {self.kind})"

    def targets(self) -> Float[Array, "n t"]:
        """What a regression predicts: the label, or cosine and sine of its angle."""
        labels = np.asarray(self.labels, dtype=np.float64)
        if self.period is None:
            return labels[:, None]
        angles = 2 * np.pi * labels / self.period
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def rows(self, chosen: Int[Array, " m"]) -> "LabelledSet":
        """Some of the rows, in the order given."""
        places = chosen.tolist()
        return replace(
            self,
            labels=[self.labels[place] for place in places],
            texts=None if self.texts is None else [self.texts[place] for place in places],
            vectors=None if self.vectors is None else self.vectors[places],
            groups=None if self.groups is None else [self.groups[place] for place in places],
        )


def check_set(labelled: LabelledSet) -> None:
    """Raise unless there is one finite label of the right kind for every text or row."""
    where = f"the set '{labelled.name}'"
    given = labelled.texts if labelled.texts is not None else labelled.vectors
    if given is None or (labelled.texts is not None and labelled.vectors is not None):
        raise ValueError(f"{where} needs either texts or vectors, and not both")
    if labelled.kind not in LABEL_KINDS:
        raise ValueError(f"{where} has kind={labelled.kind!r}; choose one of {', '.join(LABEL_KINDS)}")
    if len(given) != len(labelled.labels) or (labelled.groups is not None and len(labelled.groups) != len(given)):
        raise ValueError(f"{where} has {len(given)} rows and {len(labelled.labels)} labels; give one for every row")
    labels = np.asarray(labelled.labels, dtype=np.float64)
    if not np.isfinite(labels).all():
        raise ValueError(f"{where} has a label that is not finite (row {int((~np.isfinite(labels)).argmax())})")
    if (labelled.kind == "cyclic") != (labelled.period is not None):
        raise ValueError(f"{where} has kind={labelled.kind!r} and period={labelled.period}; a cycle needs a period")
    if labelled.period is not None and not labelled.period > 0:
        raise ValueError(f"{where} has period={labelled.period}; give a positive length, e.g. 7 for weekdays")
    if labelled.kind == "binary" and not set(labels.tolist()) <= {0.0, 1.0}:
        raise ValueError(f"{where} has labels other than 0 and 1; give those, or kind='continuous'")


def check_enough(labelled: LabelledSet) -> None:
    """Raise if there are too few rows, or too few of one class, to train on some and test on others."""
    if len(labelled) < FEWEST_ROWS:
        raise ValueError(f"the set '{labelled.name}' has {len(labelled)} usable rows; give at least {FEWEST_ROWS}")
    if labelled.kind == "binary":
        positive = int(np.sum(labelled.labels))
        if min(positive, len(labelled) - positive) < FEWEST_OF_A_CLASS:
            raise ValueError(
                f"the set '{labelled.name}' has {positive} rows of class 1 and {len(labelled) - positive} of class 0; "
                f"give at least {FEWEST_OF_A_CLASS} of each"
            )
    elif np.std(labelled.labels) == 0:
        raise ValueError(f"all labels of the set '{labelled.name}' are equal; there is nothing to predict")


def sample(labelled: LabelledSet, most_rows: int, seed: int = 0) -> LabelledSet:
    """At most so many rows, without repeated texts; both classes of a binary set get the same number.

    A text that occurs twice could be on both sides of a split, so only its first row is kept, and none if its labels
    differ.
    """
    unique = _unique_texts(labelled)
    order = np.random.default_rng(seed).permutation(unique)
    if labelled.kind != "binary":
        return labelled.rows(np.sort(order[:most_rows]))
    labels = np.asarray(labelled.labels)[order]
    each = min(most_rows // 2, *(int((labels == value).sum()) for value in (0, 1)))
    chosen = np.concatenate([order[labels == value][:each] for value in (0, 1)])
    return labelled.rows(np.sort(chosen))


def _unique_texts(labelled: LabelledSet) -> Int[Array, " m"]:
    if labelled.texts is None:
        return np.arange(len(labelled))
    seen: dict[str, tuple[int, set[float]]] = {}
    for place, (text, label) in enumerate(zip(labelled.texts, labelled.labels, strict=True)):
        if text.strip():
            seen.setdefault(text, (place, set()))[1].add(label)
    return np.array([place for place, labels in seen.values() if len(labels) == 1], dtype=np.int64)


class Split(NamedTuple):
    """Rows to train on, and rows to test on."""

    train: Int[Array, " a"]
    test: Int[Array, " b"]

    def is_train(self, n_rows: int) -> Bool[Array, " n"]:
        """Which rows are training rows."""
        found = np.zeros(n_rows, dtype=bool)
        found[self.train] = True
        return found


def class_split(labelled: LabelledSet, seed: int) -> Split:
    """A third of the rows of each class to test on; whole groups, if there are groups."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedShuffleSplit

    labels = np.asarray(labelled.labels)
    if labelled.groups is None:
        halves = StratifiedShuffleSplit(n_splits=1, test_size=TEST_SHARE, random_state=seed).split(labels, labels)
    else:
        grouped = StratifiedGroupKFold(n_splits=round(1 / TEST_SHARE), shuffle=True, random_state=seed)
        halves = grouped.split(labels, labels, labelled.groups)
    return Split(*next(iter(halves)))


def folds(groups: Sequence[int] | None, n_rows: int, seed: int) -> list[Split]:
    """Splits in which every row is tested once; whole groups, if there are groups."""
    from sklearn.model_selection import GroupKFold, KFold

    rows = np.zeros(n_rows)
    if groups is None:
        return [Split(*each) for each in KFold(FOLDS, shuffle=True, random_state=seed).split(rows)]
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    n_groups = int(numbers.max()) + 1
    if n_groups < FOLDS:
        raise ValueError(f"there are {n_groups} groups of rows; give at least {FOLDS}, or no groups")
    shuffled = np.random.default_rng(seed).permutation(n_groups)[numbers]
    return [Split(*each) for each in GroupKFold(min(GROUP_FOLDS, n_groups)).split(rows, groups=shuffled)]


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
