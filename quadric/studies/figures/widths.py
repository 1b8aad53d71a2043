"""Error against the number of latents, beside the floor that no dictionary of quadratic forms can pass.

The paper compares its priors with TopK at one size, k = 8 d. Where the lines cross, that comparison turns round.
"""

from dataclasses import replace
from itertools import pairwise
from math import exp, log
from typing import Any

from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.layers import summary
from quadric.studies.figures.series import Series, all_series
from quadric.studies.figures.style import GREY, Drawn, panels
from quadric.studies.sweep.rows import Row

PANELS = {"error": "whole product space", "error_quadratic": "quadratic block yyᵀ"}


def draw(data: FigureData) -> Drawn:
    """Left: the error and the floor. Right: the error of the block without the mean token's direction."""
    lines = [(series, over_width(series)) for series in all_series(at_one_layer(data))]
    rows = [row for _, line in lines for row in line]
    sizes = sorted({row["n_latents"] for row in rows})
    if len(sizes) < 2:
        raise MissingDataError(
            "cells of at least two sizes are needed for the figure over the number of latents; run, for several k: "
            "quadric sweep --recipe paper --layers 15 --prior atomic composite quadratic topk --n-latents 512 "
            "--out runs/k512"
        )
    figure, (axes,) = panels(1, len(PANELS), 2.9, sharex=True)
    for panel, (measure, title) in zip(axes, PANELS.items(), strict=True):
        for series, line in lines:
            _line(panel, series, [row for row in line if row[measure] is not None], measure)
        panel.set_title(title)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [f"{size:,}\n{_in_widths(size, rows)}" for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel("latents k")
        panel.set_ylim(bottom=0)
    _floor(axes[0], rows)
    axes[0].set_ylabel("held-out error")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return Drawn(figure, rows)


def at_one_layer(data: FigureData) -> FigureData:
    """The cells of the layer that has most sizes."""
    sizes: dict[str, set[int]] = {}
    for row in data.rows:
        sizes.setdefault(row["hook_point"], set()).add(row["n_latents"])
    place = max(sizes, key=lambda each: len(sizes[each]), default=None)
    return replace(data, rows=tuple(row for row in data.rows if row["hook_point"] == place))


def over_width(series: Series) -> list[Row]:
    """One row per number of latents, with mean and interval over seeds."""
    cells: dict[int, list[Row]] = {}
    for row in sorted(series.rows, key=lambda row: (row["n_latents"], row["seed"])):
        cells.setdefault(row["n_latents"], []).append(row)
    return [
        {"d_model": found[0]["d_model"], "floor_fitted": found[0].get("floor_fitted"), **summary(series, found)}
        for found in cells.values()
    ]


def _line(axes: Any, series: Series, line: list[Row], measure: str) -> None:
    if not line:
        return
    look, sizes = series.look, [row["n_latents"] for row in line]
    values = [row[measure] for row in line]
    axes.plot(sizes, values, look.dashes, color=look.colour, marker=look.marker, label=look.label)
    if measure == "error":
        lows, highs = zip(*map(_band, line), strict=True)
        axes.fill_between(sizes, lows, highs, color=look.colour, alpha=0.18, lw=0)


def _band(row: Row) -> tuple[float, float]:
    """The range over seeds: Student's interval of two seeds would hide the lines. One seed: the interval over
    sequences."""
    return (row["smallest"], row["largest"]) if row["seeds"] > 1 else (row["low"], row["high"])


def _floor(axes: Any, rows: list[Row]) -> None:
    """PCA of xxᵀ on held-out tokens and, where known, on those that it was computed from: the floor lies between."""
    held_out = sorted({(row["n_latents"], row["floor"]) for row in rows if row["floor"] is not None})
    fitted = dict(sorted({(r["n_latents"], r["floor_fitted"]) for r in rows if r["floor_fitted"] is not None}))
    if not held_out:
        return
    sizes, values = zip(*held_out, strict=True)
    axes.plot(sizes, values, color=GREY, linewidth=1, label="floor: PCA of xxᵀ")
    if set(sizes) <= fitted.keys():
        axes.fill_between(sizes, [fitted[size] for size in sizes], values, color=GREY, alpha=0.25, lw=0)


def _in_widths(size: int, rows: list[Row]) -> str:
    share = size / rows[0]["d_model"]
    return f"d/{round(1 / share)}" if share < 1 and (1 / share).is_integer() else f"{share:.3g} d"


def crossings(first: list[Row], second: list[Row], measure: str = "error") -> list[float]:
    """Numbers of latents at which two lines cross, by interpolation in log k between the sizes that both have.

    Args:
        first: Rows of `over_width`.
        second: Rows of another series.
        measure: Column to compare.

    Returns:
        Every k at which the sign of first − second changes, ascending.

    Example:
        >>> at = lambda k, error: {"n_latents": k, "error": error}
        >>> [round(k) for k in crossings([at(1, 0.5), at(4, 0.1)], [at(1, 0.3), at(4, 0.3)])]
        [2]
    """
    others = {row["n_latents"]: row[measure] for row in second}
    gaps = [(row["n_latents"], row[measure] - others[row["n_latents"]]) for row in first if row["n_latents"] in others]
    found = []
    for (k, gap), (next_k, next_gap) in pairwise(gaps):
        if gap * next_gap < 0:
            share = gap / (gap - next_gap)
            found.append(exp(log(k) + share * (log(next_k) - log(k))))
    return found
