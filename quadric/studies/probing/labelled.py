"""Labelled data: texts, or rows of activations, each with one label; and how it is split."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

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
