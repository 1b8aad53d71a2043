"""Lines of a figure: one for every kind of dictionary, and one for each lens where the cells have both."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from quadric.studies.figures.figure_data import FigureData
from quadric.studies.figures.style import AFFINE_LOOKS, LOOKS, Look
from quadric.studies.sweep.rows import Row


class Series(NamedTuple):
    """Cells of one kind and lens, at the alpha that most cells with this lens have."""

    kind: str
    lens: str | None
    """None for linear dictionaries."""
    look: Look
    rows: list[Row]


def all_series(data: FigureData) -> Iterator[Series]:
    """One series per kind and lens; the lens is named only if the cells have more than one."""
    by_lens = {lens: _at_main_alpha(data, lens) for lens in ("paper", "affine")}
    linear = [row for row in data.rows if lens_of(row) is None]
    both = all(by_lens.values())
    for kind, look in LOOKS.items():
        for lens, rows in (*by_lens.items(), (None, linear)):
            mine = [row for row in rows if row["kind"] == kind]
            if mine:
                yield Series(kind, lens, AFFINE_LOOKS[kind] if both and lens == "affine" else look, mine)


def _at_main_alpha(data: FigureData, lens: str) -> list[Row]:
    rows = [row for row in data.rows if lens_of(row) == lens]
    counts = Counter(row["alpha"] for row in rows)
    if not counts:
        return []
    main = max(counts, key=lambda alpha: (counts[alpha], alpha == data.main_alpha))
    return [row for row in rows if row["alpha"] == main]


def lens_of(row: Row) -> str | None:
    """The lens of a cell; None for a linear dictionary."""
    lens: str | None = row["lens"]
    return lens
