"""What probing found: one row per set, family, pooling, number of features and seed."""

from dataclasses import asdict, dataclass
from typing import Any

from quadric.studies.probing.labelled import LabelKind
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
        from quadric.studies.probing.summary import summary_of

        return {
            "settings": self.settings,
            "sets": [asdict(each) | {"trivial": each.is_trivial} for each in self.sets],
            "summary": summary_of(self).as_json(),
            "probes": [each.as_row() for each in self.rows],
            "regressions": [each.as_row() for each in self.regressions],
        }
