"""Style and saving of all figures. The palette is Okabe and Ito's, which is safe for colour-blind readers."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quadric._io.files import write_atomically
from quadric._io.results import csv_of_rows
from quadric.studies.sweep.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
)  # fmt: skip
GREY = "#777777"
WIDTH = 6.5
"""Text width of a page, in inches."""
DPI = 200


class Look(NamedTuple):
    """Colour, marker and line style of one kind of dictionary, so that colour is never the only distinction."""

    label: str
    colour: str
    marker: str
    dashes: str


LOOKS = {
    "atomic": Look("atomic", GREEN, "^", ":"),
    "composite": Look("composite", VERMILION, "o", "-"),
    "quadratic": Look("quadratic", BLUE, "s", "--"),
    "topk": Look("TopK", BLACK, "x", "-."),
    "batch_topk": Look("BatchTopK", PURPLE, "+", "-."),
}
AFFINE_LOOKS = {
    "atomic": Look("atomic, affine lens", SKY, "v", ":"),
    "composite": Look("composite, affine lens", ORANGE, "D", "-"),
    "quadratic": Look("quadratic, affine lens", PURPLE, "P", "--"),
}
"""Bilinear dictionaries with the affine lens, in figures that show both lenses."""

_SETTINGS: Any = {  # Any: the stubs require a Literal for every key
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "svg.hashsalt": "quadric",  # the same figure gives the same bytes
    "svg.fonttype": "none",
}


class Drawn(NamedTuple):
    """A figure and the numbers behind it."""

    figure: "Figure"
    rows: list[Row]


@contextmanager
def styled() -> Iterator[None]:
    """Context manager that applies the common style and restores matplotlib's settings on exit."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        yield


def panels(
    rows: int, columns: int, height: float, *, width: float = WIDTH, **options: Any
) -> tuple["Figure", list[list[Any]]]:
    """A figure with a grid of axes; sizes in inches. It needs no display and changes no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options).tolist()


def save(drawn: Drawn, folder: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending in ("png", "svg"):
        buffer = io.BytesIO()
        with styled():
            drawn.figure.savefig(buffer, format=ending, dpi=DPI, metadata={"Date": None} if ending == "svg" else None)
        paths.append(folder / f"{name}.{ending}")
        write_atomically(paths[-1], buffer.getvalue())
    paths.append(folder / f"{name}.csv")
    write_atomically(paths[-1], csv_of_rows(drawn.rows).encode())
    return paths
