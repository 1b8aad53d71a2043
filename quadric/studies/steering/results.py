"""What a steering curve found: one row per method, value and seed; means over seeds; and its file."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from quadric._io.results import csv_of_rows, json_text, write_result
from quadric.evaluation.measures import Interval, student_interval

Match = Literal["hellinger", "own", "following"]
MATCHES: tuple[Match, ...] = ("hellinger", "own", "following")
NONE = "none"
"""Name of the rows without steering."""


@dataclass(frozen=True, kw_only=True)
class SteeringRow:
    """One way of steering at one dose, measured on the reporting prompts of one seed."""

    method: str
    to: float | None
    """Value of z to which the quadric steers; the others are matched with it."""
    match: Match | None
    """Effect by which the dose was matched; None without steering and for the quadric itself."""
    seed: int
    dose: float | None
    """None if no dose has the effect of the quadric; then nothing was measured."""
    hellinger: float | None = None
    """Effect: distance √p between predictions of the next token, with and without steering."""
    divergence: float | None = None
    """Effect: KL(unmodified ‖ steered) of the next token."""
    own: float | None = None
    """Effect: change of the probability of the tokens on which the latent fires."""
    following: float | None = None
    """Effect: change of the probability of the tokens that follow those."""
    text_divergence: float | None = None
    """Damage: KL per token on unrelated text."""
    text_cross_entropy: float | None = None
    """Damage: increase of the cross-entropy per token on unrelated text."""
    perplexity: float | None = None
    """Damage: of continuations sampled under steering, for the unmodified model."""
    mahalanobis: float | None = None
    """Damage: distance of the activations from the mean of the corpus, whitened; about 1 for the corpus."""
    nearest: float | None = None
    """Damage: distance from the nearest corpus token, whitened."""


MEASURES = tuple(
    each.name for each in fields(SteeringRow) if each.name not in ("method", "to", "match", "seed", "dose")
)


class Summary(NamedTuple):
    """One way of steering towards one value, over seeds."""

    method: str
    to: float | None
    match: Match | None
    reached: int
    """Seeds in which a dose with the effect of the quadric was found."""
    means: dict[str, Interval | None]
    """By measure; the interval is Student's over seeds, and empty (low = high) for a single one."""


@dataclass(frozen=True, kw_only=True)
class SteeringCurve:
    """Effect and damage of steering by one latent."""

    latent: int
    own: list[str]
    """The tokens on which the latent fires, on the side of the largest value."""
    following: list[str]
    rows: list[SteeringRow]

    def summaries(self) -> list[Summary]:
        """Means over seeds, by value and method."""
        groups: dict[tuple[str, float | None, Match | None], list[SteeringRow]] = {}
        values = list(dict.fromkeys(row.to for row in self.rows))
        for row in sorted(self.rows, key=lambda row: (values.index(row.to), row.match or "")):
            groups.setdefault((row.method, row.to, row.match), []).append(row)
        return [
            Summary(*group, sum(each.dose is not None for each in rows), _means(rows)) for group, rows in groups.items()
        ]

    def as_rows(self) -> list[dict[str, Any]]:
        """One flat table row for each method, value and seed."""
        return [{"latent": self.latent, **asdict(row)} for row in self.rows]

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return asdict(self)

    def __repr__(self) -> str:
        values = sorted({row.to for row in self.rows if row.to is not None})
        methods = len({row.method for row in self.rows})
        return f"SteeringCurve(latent {self.latent}, {methods} methods, to {', '.join(f'{each:g}' for each in values)})"


def _means(rows: list[SteeringRow]) -> dict[str, Interval | None]:
    found: dict[str, Interval | None] = {}
    for name in MEASURES:
        values = [value for row in rows if (value := getattr(row, name)) is not None]
        found[name] = student_interval(values) if values else None
    return found


def write_curve(curve: SteeringCurve, path: Path) -> None:
    """Write one row per method, value and seed (.csv), or everything (.json)."""
    write_result(
        path, {".csv": lambda: csv_of_rows(curve.as_rows()), ".json": lambda: json_text(curve.as_json(), indent=1)}
    )
