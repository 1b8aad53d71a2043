"""Reconstruction error across layers: the priors, and the linear baselines with the exact product-space correction."""

from collections import Counter
from statistics import mean

from quadric.evaluation.measures import student_interval
from quadric.figures.figure_data import FigureData, MissingDataError
from quadric.figures.style import LOOKS, Drawn, panels
from quadric.sweep.rows import Row


def draw(data: FigureData) -> Drawn:
    """Mean over seeds with Student's 95 % interval; with one seed, the interval over held-out sequences."""
    rows = summaries(comparable_rows(data))
    if not rows:
        raise MissingDataError(
            "no measured cells for the figure over layers; run: quadric sweep --layers even --prior atomic "
            "composite quadratic topk --seeds 0 1 2 --out runs/layers"
        )
    figure, ((axes,),) = panels(1, 1, 2.7, width=4.8)
    for kind, look in LOOKS.items():
        line = [row for row in rows if row["kind"] == kind]
        if not line:
            continue
        layers, errors = [row["layer"] for row in line], [row["error"] for row in line]
        axes.plot(layers, errors, look.dashes, color=look.colour, marker=look.marker, label=look.label)
        axes.fill_between(
            layers, [row["low"] for row in line], [row["high"] for row in line], color=look.colour, alpha=0.18, lw=0
        )
    axes.set_xticks(sorted({row["layer"] for row in rows}))
    axes.set_xlabel("layer (residual stream into it)")
    axes.set_ylabel("held-out error ‖X̂ − xxᵀ‖² / ‖xxᵀ‖²")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=5)
    return Drawn(figure, rows)


def comparable_rows(data: FigureData) -> list[Row]:
    """Cells at the main alpha and the most common number of latents."""
    fitting = [row for row in data.rows if row["alpha"] in (None, data.main_alpha)]
    sizes = Counter(row["n_latents"] for row in fitting)
    return [row for row in fitting if row["n_latents"] == sizes.most_common(1)[0][0]]


def summaries(rows: list[Row]) -> list[Row]:
    """One row per layer and kind."""
    cells: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["kind"], row["layer"], row["seed"])):
        cells.setdefault((row["layer"], row["kind"]), []).append(row)
    return [_summary(layer, kind, found) for (layer, kind), found in cells.items()]


def _summary(layer: int, kind: str, found: list[Row]) -> Row:
    errors = [row["error"] for row in found]
    low, high = student_interval(errors)[1:] if len(errors) > 1 else (found[0]["error_low"], found[0]["error_high"])
    return {
        "layer": layer, "kind": kind, "n_latents": found[0]["n_latents"], "seeds": len(errors), "error": mean(errors),
        "low": low, "high": high, "interval": "over seeds" if len(errors) > 1 else "over sequences",
        "smallest": min(errors), "largest": max(errors),
    }  # fmt: skip
