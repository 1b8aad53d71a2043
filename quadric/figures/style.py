"""How every figure looks, and how it is saved: Okabe and Ito's colours, which colour-blind readers tell apart."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quadric._files import write_atomically
from quadric.sweep.results import as_csv
from quadric.sweep.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
)  # fmt: skip
GREY = "#777777"
WIDTH = 6.5
"""Inches: the text of a page."""
DPI = 200


class Look(NamedTuple):
    """How a kind of dictionary is drawn everywhere: told apart by colour, marker and dashes, not by colour alone."""

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

_SETTINGS: Any = {  # Any: the stubs name every setting, and would want a Literal of each
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
    "svg.hashsalt": "quadric",  # the same figure has the same bytes
    "svg.fonttype": "none",
}


class Drawn(NamedTuple):
    """A figure and the numbers in it."""

    figure: "Figure"
    rows: list[Row]


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the common style; settings hold for what is made inside, and nothing outside changes."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        yield


def panels(
    rows: int, columns: int, height: float, *, width: float = WIDTH, **options: Any
) -> tuple["Figure", list[list[Any]]]:
    """A figure with a grid of axes, in inches; it needs no display and leaves no global state behind."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options).tolist()


def save(drawn: Drawn, folder: Path, name: str) -> list[Path]:
    """NAME.png, NAME.svg and NAME.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending in ("png", "svg"):
        buffer = io.BytesIO()
        with styled():
            drawn.figure.savefig(buffer, format=ending, dpi=DPI, metadata={"Date": None} if ending == "svg" else None)
        paths.append(folder / f"{name}.{ending}")
        write_atomically(paths[-1], buffer.getvalue())
    paths.append(folder / f"{name}.csv")
    write_atomically(paths[-1], as_csv(drawn.rows).encode())
    return paths
