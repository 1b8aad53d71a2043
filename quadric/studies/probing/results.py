"""What probing found: one row per set, family, pooling, number of features and seed; and what they say together.

The summary has means over sets, and paired differences between families.

Sets whose words alone tell the classes apart are left out. Intervals are of two kinds. Over *sets*: Student's t of
the sets' means, which says how a further set of this kind would do. Over *seeds*: the splits of one set share rows, so
that the plain interval would be too narrow; it is widened as by Nadeau and Bengio (2003), with
variance · (1/seeds + test rows/training rows).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any

from quadric.evaluation.measures import COVERAGE, Interval, student_interval
from quadric.studies.probing.families import LATENTS, LINEAR_PART
from quadric.studies.probing.labelled import FOLDS, TEST_SHARE, LabelKind
from quadric.studies.probing.regressing import EIGENSPACE
from quadric.studies.probing.vectors import Pooling

ALL = "all"
TRIVIAL = 0.95
"""Area under the curve of the words alone, above which a set says nothing about activations."""


@dataclass(frozen=True, kw_only=True)
class SetFacts:
    """One data set as it was probed."""

    name: str
    kind: LabelKind
    n_rows: int
    n_tokens: int
    """Tokens of all texts together."""
    about: str
    source: str
    words_auc: float | None
    """Area under the curve of a probe on words and lengths alone; None for other labels than binary ones."""

    @property
    def is_trivial(self) -> bool:
        """Whether the words alone tell the classes apart; such a set counts in no mean."""
        return self.words_auc is not None and self.words_auc > TRIVIAL


@dataclass(frozen=True, kw_only=True)
class ProbeRow:
    """One probe of a binary label."""

    set: str
    pooling: Pooling
    dictionary: str
    family: str
    count: int | None
    """Features used; None for all."""
    seed: int
    auc: float
    accuracy: float

    @property
    def label(self) -> str:
        return family_label(self.dictionary, self.family)

    def as_row(self) -> dict[str, Any]:
        return asdict(self) | {"count": ALL if self.count is None else self.count}


@dataclass(frozen=True, kw_only=True)
class RegressionRow:
    """One regression of a continuous or cyclic label."""

    set: str
    pooling: Pooling
    dictionary: str
    family: str
    dimensions: int
    seed: int
    r2: float
    circular: float | None
    chosen: str
    """The latents that were chosen, one per fold."""

    @property
    def label(self) -> str:
        return family_label(self.dictionary, self.family)

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def family_label(dictionary: str, family: str) -> str:
    """Name of a family in tables."""
    return f"{dictionary}: {family}" if dictionary else family


@dataclass(frozen=True, kw_only=True, repr=False)
class Probing:
    """Everything that was measured."""

    settings: dict[str, Any]
    sets: tuple[SetFacts, ...]
    rows: tuple[ProbeRow, ...]
    regressions: tuple[RegressionRow, ...]

    def __repr__(self) -> str:
        probes = f"{len(self.rows):,} probes and {len(self.regressions):,} regressions"
        return f"Probing({len(self.sets)} sets, {probes})"

    def as_json(self) -> dict[str, Any]:
        """Everything, with the summary that the tables show."""
        return {
            "settings": self.settings,
            "sets": [asdict(each) | {"trivial": each.is_trivial} for each in self.sets],
            "summary": summary_of(self).as_json(),
            "probes": [each.as_row() for each in self.rows],
            "regressions": [each.as_row() for each in self.regressions],
        }


Row = ProbeRow | RegressionRow


@dataclass(frozen=True, kw_only=True)
class FamilyMean:
    """One family over all sets."""

    label: str
    pooling: str
    count: int | None
    """Features, or dimensions of a regression."""
    n_sets: int
    value: Interval
    """Mean over sets, interval over sets."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One family against another on the same rows and splits."""

    label: str
    against: str
    pooling: str
    count: int | None
    n_sets: int
    difference: Interval
    """Mean of the paired differences, interval over sets."""
    won: int
    """Sets whose own interval, over seeds, is above zero."""
    lost: int
    tied: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Means and contrasts of the probes (area under the curve, accuracy) and of the regressions (R²)."""

    auc: tuple[FamilyMean, ...]
    accuracy: tuple[FamilyMean, ...]
    auc_contrasts: tuple[Contrast, ...]
    r2: tuple[FamilyMean, ...]
    r2_contrasts: tuple[Contrast, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            name: [_flat(asdict(each)) for each in getattr(self, name)]
            for name in ("auc", "accuracy", "auc_contrasts", "r2", "r2_contrasts")
        }


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in values.items() if not isinstance(value, tuple)}
    ((name, interval),) = ((name, value) for name, value in values.items() if isinstance(value, tuple))
    return plain | {name: interval[0], "low": interval[1], "high": interval[2]}


def summary_of(found: Probing) -> Summary:
    """Means and contrasts over all sets that are not trivial.

    Args:
        found: Result of `quadric.probe`.

    Returns:
        The summary; `auc` and `r2` have means of families of features, `auc_contrasts` and `r2_contrasts` the paired
        differences between them.

    Example:
        >>> from quadric.studies.probing import LabelledSet, summary_of
        >>> data = LabelledSet(name="sign", kind="binary", vectors=x[:200], labels=(x[:200, 0] > 0).int().tolist())
        >>> summary = summary_of(quadric.probe(ae, [data], seeds=2, counts=(1,)))
        >>> summary.auc[0].n_sets
        1
    """
    trivial = {each.name for each in found.sets if each.is_trivial}
    probes = [row for row in found.rows if row.set not in trivial]
    rows: list[Row] = [*probes, *found.regressions]
    bilinear = {row.dictionary for row in rows if row.family == LINEAR_PART}
    auc = _by_cell(probes, lambda row: row.auc)
    r2 = _by_cell(found.regressions, lambda row: row.r2)
    return Summary(
        auc=_means(auc),
        accuracy=_means(_by_cell(probes, lambda row: row.accuracy)),
        auc_contrasts=_contrasts(
            auc, {family_label(name, LATENTS) for name in bilinear}, TEST_SHARE / (1 - TEST_SHARE)
        ),
        r2=_means(r2),
        r2_contrasts=_contrasts(r2, {family_label(name, EIGENSPACE) for name in bilinear}, 1 / (FOLDS - 1)),
    )


Cell = tuple[str, str, int | None]
"""Pooling, label, and number of features; regressions all have as many dimensions as there are."""
Values = dict[Cell, dict[str, list[float]]]
"""One value per seed, by cell and set."""


def _by_cell(rows: Iterable[Any], value: Callable[[Any], float]) -> Values:
    found: Values = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.pooling, row.label, getattr(row, "count", None)][row.set].append(value(row))
    return found


def _means(values: Values) -> tuple[FamilyMean, ...]:
    return tuple(
        FamilyMean(
            label=label,
            pooling=pooling,
            count=count,
            n_sets=len(by_set),
            value=student_interval([mean(each) for each in by_set.values()]),
        )
        for (pooling, label, count), by_set in values.items()
    )


def _contrasts(values: Values, ours: set[str], test_by_train: float) -> tuple[Contrast, ...]:
    """Every family of `ours` against all others with as many features."""
    found = []
    for pooling, label, count in values:
        if label in ours:
            others = [each for each in values if each[0] == pooling and each[2] == count and each[1] != label]
            found += [_contrast(values, (pooling, label, count), other, test_by_train) for other in others]
    return tuple(each for each in found if each is not None)


def _contrast(values: Values, cell: Cell, other: Cell, test_by_train: float) -> Contrast | None:
    shared = [name for name in values[cell] if name in values[other]]
    pairs = [[a - b for a, b in zip(values[cell][name], values[other][name], strict=True)] for name in shared]
    if not pairs:
        return None
    own = [split_interval(each, test_by_train) for each in pairs]
    won, lost = sum(each.low > 0 for each in own), sum(each.high < 0 for each in own)
    return Contrast(
        label=cell[1],
        against=other[1],
        pooling=cell[0],
        count=cell[2],
        n_sets=len(pairs),
        difference=student_interval([mean(each) for each in pairs]),
        won=won,
        lost=lost,
        tied=len(pairs) - won - lost,
    )


def set_rows(found: Probing) -> list[dict[str, Any]]:
    """One flat row per set, family, pooling and number of features: AUC and accuracy with intervals over splits."""
    auc, accuracy = _by_cell(found.rows, lambda row: row.auc), _by_cell(found.rows, lambda row: row.accuracy)
    rows = []
    for cell, by_set in auc.items():
        for name, values in by_set.items():
            row: dict[str, Any] = {"set": name, "features": cell[1], "pooling": cell[0], "count": shown_count(cell[2])}
            for measure, own in (("auc", values), ("accuracy", accuracy[cell][name])):
                interval = split_interval(own, TEST_SHARE / (1 - TEST_SHARE))
                row |= {measure: interval.mean, f"{measure}_low": interval.low, f"{measure}_high": interval.high}
            rows.append(row)
    return rows


def split_interval(values: Sequence[float], test_by_train: float) -> Interval:
    """Interval of the mean over random splits of the same rows; a single value has no width."""
    from scipy.stats import t

    if len(values) == 1:
        return Interval(values[0], values[0], values[0])
    spread = stdev(values) * (1 / len(values) + test_by_train) ** 0.5
    half = float(t.ppf((1 + COVERAGE) / 2, len(values) - 1)) * spread
    return Interval(mean(values), mean(values) - half, mean(values) + half)


def shown_count(count: int | None) -> str:
    """A number of features in tables."""
    return ALL if count is None else str(count)
