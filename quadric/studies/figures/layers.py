"""Reconstruction error across layers: the priors, and the linear baselines with the exact product-space correction."""

from collections import Counter
from statistics import mean

from quadric.evaluation.measures import student_interval
from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.series import Series, all_series
from quadric.studies.figures.style import Drawn, panels
from quadric.studies.sweep.rows import Row

MEASURES = (
    "error_constant", "error_linear", "error_quadratic", "floor", "n_distinct", "n_empty", "n_copies",
    "active_per_token", "error_of_32_active",
)  # fmt: skip
"""Columns of the CSV beside the error."""


def draw(data: FigureData) -> Drawn:
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
