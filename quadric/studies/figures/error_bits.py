"""Error against description length: the cost of a simpler prior. The paper mentions the idea but has no such figure."""

from collections import Counter
from typing import TYPE_CHECKING

from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.series import lens_of
from quadric.studies.figures.style import LOOKS, Drawn, panels
from quadric.studies.sweep.rows import Row

if TYPE_CHECKING:
    from matplotlib.ticker import Locator

COLUMNS = ("cell", "kind", "n_latents", "n_hidden", "alpha", "seed", "bits", "bits_a_latent", "error")


def draw(data: FigureData) -> Drawn:
    """Bilinear cells at the most common layer and lens: bits of the whole dictionary, and per latent stored alone."""
    from matplotlib.ticker import EngFormatter, NullLocator

    rows = _rows(data)
    figure, ((whole, alone),) = panels(1, 2, 2.6, sharey=True)
    for axes, column in ((whole, "bits"), (alone, "bits_a_latent")):
        for kind, look in LOOKS.items():
            mine = sorted((row for row in rows if row["kind"] == kind), key=lambda row: (row["n_latents"], row["seed"]))
            if not mine:
                continue
            mark = {"s": 18, "marker": look.marker, "color": look.colour, "linewidths": 0}
            axes.scatter(
                [row[column] for row in mine],
                [row["error"] for row in mine],
                alpha=[0.9 if row["alpha"] == data.main_alpha else 0.35 for row in mine],
                **mark,
            )
            axes.scatter(
                [], [], alpha=0.9, label=look.label, **mark
            )  # legend entry: always at full opacity, whatever the alpha of the first point
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(_ticks([row[column] for row in rows]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    whole.set_xlabel("bits of the dictionary, atoms shared")
    alone.set_xlabel("bits of a latent written alone, mean")
    whole.set_ylabel("held-out error")
    handles, labels = whole.get_legend_handles_labels()
    title = f"{rows[0]['hook_point']}; pale: alpha other than {data.main_alpha:g}"
    figure.legend(handles, labels, loc="outside upper center", ncols=3, title=title)
    return Drawn(figure, [{name: row[name] for name in COLUMNS} for row in rows])


def _ticks(values: list[float]) -> "Locator":
    """At 1, 2 and 5 of every decade; evenly spaced in a narrow range, where these would be too few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    return LogLocator(subs=(1, 2, 5)) if max(values) > 10 * min(values) else MaxNLocator(4)


def _rows(data: FigureData) -> list[Row]:
    found = [row for row in data.rows if row["bits"] is not None]
    if not found:
        raise MissingDataError(
            "no measured bilinear cells; run: quadric sweep --layers 15 --prior atomic composite quadratic "
            "--out runs/bits"
        )
    (place, _), *_ = Counter((row["hook_point"], lens_of(row)) for row in found).most_common(1)
    return [row for row in found if (row["hook_point"], lens_of(row)) == place]
