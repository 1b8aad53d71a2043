"""Matrices of similarities as heat maps."""

import io
from typing import Any

from quadric.studies.reports.run_comparison import MEASURES, RunComparison, short_names

SHOWN = ("frobenius", "hungarian", "alignment_sign_free")
LARGEST_ANNOTATED = 12


def comparison_as_png(comparison: RunComparison) -> bytes:
    """Sim_F, Sim_H and the alignment side by side, each with the value of a random initialization."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A separate Figure: pyplot keeps global state and looks for a display.
    side = 2.2 + 0.55 * len(comparison.runs)
    figure = Figure(figsize=(len(SHOWN) * side + 1, side + 1), layout="constrained")
    FigureCanvasAgg(figure)
    panels = zip(figure.subplots(1, len(SHOWN)), SHOWN, strict=True)
    images = [_draw(axes, comparison, measure) for axes, measure in panels]
    figure.colorbar(images[0], ax=figure.axes, shrink=0.8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _draw(axes: Any, comparison: RunComparison, measure: str) -> Any:
    values = comparison.matrix(measure)
    names = short_names(comparison.runs)
    image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis")
    axes.set_title(f"{MEASURES[measure].label}\n{_chance(comparison, measure)}", fontsize=9)
    # Names may contain a $, which matplotlib would read as mathematics.
    labels = [name.replace("$", r"\$") for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(names)), labels, fontsize=8)
    if len(names) <= LARGEST_ANNOTATED:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.6 else "black")
    return image


def _chance(comparison: RunComparison, measure: str) -> str:
    values = [MEASURES[measure].of(pair.random) for pair in comparison.pairs.values()]
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return f"random initialization: {low if low == high else f'{low} … {high}'}"
