"""Reconstruction error: across layers, over the number of latents, and against description length.

Across layers: the priors, and the linear baselines with the exact product-space correction. Over the number of latents:
beside the floor that no dictionary of quadratic forms can pass. The paper compares its priors with TopK at one size,
k = 8 d; where the lines cross, that comparison turns round. Against description length: the cost of a simpler prior,
an idea that the paper mentions without a figure.
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from statistics import mean
from typing import TYPE_CHECKING, Any

from quadric.evaluation.measures import student_interval
from quadric.studies.figures.figure_data import FigureData, MissingDataError, Series, all_series, lens_of
from quadric.studies.figures.style import GREY, LOOKS, Drawn, panels
from quadric.studies.sweep.rows import Row

if TYPE_CHECKING:
    from matplotlib.ticker import Locator


MEASURES = (
    "error_constant", "error_linear", "error_quadratic", "floor", "n_distinct", "n_empty", "n_copies",
    "active_per_token", "error_of_32_active",
)  # fmt: skip
"""Columns of the CSV beside the error; earlier rows lack some of them."""


def draw_layers(data: FigureData) -> Drawn:
    """Mean over seeds with Student's 95 % interval; with one seed, the interval over held-out sequences."""
    if not data.rows:
        raise MissingDataError(
            "no measured cells for the figure over layers; run: quadric sweep --layers even --prior atomic "
            "composite quadratic topk --seeds 0 1 2 --out runs/layers"
        )
    figure, ((axes,),) = panels(1, 1, 2.9, width=5.2)
    size = _commonest_size(data)
    rows: list[Row] = []
    for series in all_series(data):
        look, line = series.look, summaries(series, size)
        layers, errors = [row["layer"] for row in line], [row["error"] for row in line]
        axes.plot(layers, errors, look.dashes, color=look.colour, marker=look.marker, label=look.label)
        axes.fill_between(
            layers, [row["low"] for row in line], [row["high"] for row in line], color=look.colour, alpha=0.18, lw=0
        )
        rows += line
    axes.set_xticks(sorted({row["layer"] for row in rows}))
    axes.set_xlabel("layer (residual stream into it)")
    axes.set_ylabel("held-out error ‖X̂ − xxᵀ‖² / ‖xxᵀ‖²")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3)
    return Drawn(figure, rows)


def _commonest_size(data: FigureData) -> int:
    return Counter(int(row["n_latents"]) for row in data.rows).most_common(1)[0][0]


def summaries(series: Series, n_latents: int) -> list[Row]:
    """One row per layer."""
    cells: dict[int, list[Row]] = {}
    for row in sorted(series.rows, key=lambda row: (row["layer"], row["seed"])):
        if row["n_latents"] == n_latents:
            cells.setdefault(row["layer"], []).append(row)
    return [{"layer": layer, **summary(series, found)} for layer, found in cells.items()]


def summary(series: Series, found: list[Row]) -> Row:
    """Mean and interval of the error of cells that differ in their seed."""
    errors = [row["error"] for row in found]
    low, high = student_interval(errors)[1:] if len(errors) > 1 else (found[0]["error_low"], found[0]["error_high"])
    return {
        "kind": series.kind, "lens": series.lens, "n_latents": found[0]["n_latents"], "seeds": len(errors),
        "error": mean(errors), "low": max(low, 0.0), "high": high,  # Student's t does not know that errors are positive
        "interval": "over seeds" if len(errors) > 1 else "over sequences",
        "smallest": min(errors), "largest": max(errors),
        **{name: mean_of(found, name) for name in MEASURES},
    }  # fmt: skip


def mean_of(rows: list[Row], name: str) -> float | None:
    """Mean of a column over the cells that have it."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(mean(values)) if values else None


PANELS = {"error": "whole product space", "error_quadratic": "quadratic block yyᵀ"}


def draw_widths(data: FigureData) -> Drawn:
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


COLUMNS = ("cell", "kind", "n_latents", "n_hidden", "alpha", "seed", "bits", "bits_a_latent", "error")


def draw_error_bits(data: FigureData) -> Drawn:
    """Bilinear cells at the most common layer and lens: bits of the whole dictionary, and per latent stored alone."""
    from matplotlib.ticker import EngFormatter, NullLocator

    rows = _bilinear_rows(data)
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
        axes.xaxis.set_major_locator(_bit_ticks([row[column] for row in rows]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    whole.set_xlabel("bits of the dictionary, atoms shared")
    alone.set_xlabel("bits of a latent written alone, mean")
    whole.set_ylabel("held-out error")
    handles, labels = whole.get_legend_handles_labels()
    title = f"{rows[0]['hook_point']}; pale: alpha other than {data.main_alpha:g}"
    figure.legend(handles, labels, loc="outside upper center", ncols=3, title=title)
    return Drawn(figure, [{name: row[name] for name in COLUMNS} for row in rows])


def _bit_ticks(values: list[float]) -> "Locator":
    """At 1, 2 and 5 of every decade; evenly spaced in a narrow range, where these would be too few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    return LogLocator(subs=(1, 2, 5)) if max(values) > 10 * min(values) else MaxNLocator(4)


def _bilinear_rows(data: FigureData) -> list[Row]:
    found = [row for row in data.rows if row["bits"] is not None]
    if not found:
        raise MissingDataError(
            "no measured bilinear cells; run: quadric sweep --layers 15 --prior atomic composite quadratic "
            "--out runs/bits"
        )
    (place, _), *_ = Counter((row["hook_point"], lens_of(row)) for row in found).most_common(1)
    return [row for row in found if (row["hook_point"], lens_of(row)) == place]
