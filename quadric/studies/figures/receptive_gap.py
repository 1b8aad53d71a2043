"""Theorem 1 over the width d: how much less often a slab fires than a half-space with the same threshold."""

import math
from typing import Any

from quadric.geometry import log_half_space_share, log_slab_share
from quadric.studies.figures.figure_data import FigureData
from quadric.studies.figures.style import BLUE, GREEN, GREY, VERMILION, Drawn, panels
from quadric.studies.sweep.rows import Row

THRESHOLDS = {0.1: GREEN, 0.25: VERMILION, 0.5: BLUE}
WIDTHS = sorted({round(2 ** (power / 4)) for power in range(8, 45)} | {576, 1024})


def log_ratio(threshold: float, d_model: int) -> float:
    """log P((w·x)² > τ) − log P(w·x > τ), exactly."""
    return log_slab_share(threshold, d_model) - log_half_space_share(threshold, d_model)


def log_printed_law(threshold: float, d_model: int) -> float:
    """log e^{−dτ(1−τ)/2}, as the paper prints it."""
    return -d_model * threshold * (1 - threshold) / 2


def log_exact_law(threshold: float, d_model: int) -> float:
    """log 2√τ (1+τ)^{−(d−1)/2}, the limit of the ratio: shares fall like (1−t)^{(d−1)/2}, not like e^{−dt/2}."""
    return math.log(2) + math.log(threshold) / 2 - (d_model - 1) / 2 * math.log1p(threshold)


def draw(data: FigureData) -> Drawn:
    """Left: the ratio and the printed law. Right: both laws divided by the exact ratio. Needs no run."""
    rows: list[Row] = [
        {
            "threshold": threshold, "d_model": d,
            "log10_ratio": log_ratio(threshold, d) / math.log(10),
            "log10_printed_law": log_printed_law(threshold, d) / math.log(10),
            "log10_exact_law": log_exact_law(threshold, d) / math.log(10),
        }
        for threshold in THRESHOLDS for d in WIDTHS
    ]  # fmt: skip
    figure, ((left, right),) = panels(1, 2, 2.7)
    for threshold, colour in THRESHOLDS.items():
        _lines(left, right, [row for row in rows if row["threshold"] == threshold], colour, f"τ = {threshold:g}")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks([4, 16, 64, 256, 1024], ["4", "16", "64", "256", "1024"])
        axes.set_xlabel("width d")
    left.set_ylabel("log₁₀ of slab / half-space")
    left.set_ylim(-110, 4)
    right.set_ylabel("log₁₀ of law / exact ratio")
    right.set_ylim(-4, 40)
    right.axhline(0, color=GREY, linewidth=0.7)
    _legend(figure, left)
    return Drawn(figure, rows)


def _lines(left: Any, right: Any, rows: list[Row], colour: str, label: str) -> None:
    widths = [row["d_model"] for row in rows]
    left.plot(widths, [row["log10_ratio"] for row in rows], color=colour, label=label)
    left.plot(widths, [row["log10_printed_law"] for row in rows], ":", color=colour)
    for law, dashes in (("log10_printed_law", ":"), ("log10_exact_law", "--")):
        right.plot(widths, [row[law] - row["log10_ratio"] for row in rows], dashes, color=colour)


def _legend(figure: Any, axes: Any) -> None:
    axes.plot([], [], color=GREY, label="exact")
    axes.plot([], [], ":", color=GREY, label="printed law")
    axes.plot([], [], "--", color=GREY, label="2√τ (1+τ)^(−(d−1)/2)")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=6, columnspacing=1.0, handlelength=1.6
    )
