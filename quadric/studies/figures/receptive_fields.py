"""Receptive fields of linear and quadratic atoms: in the plane, and how much of the sphere they have over the width d.

In the plane: half-spaces, slabs, and their sums. Over the width, Theorem 1: how much less often a slab fires than a
half-space with the same threshold.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from quadric.studies.figures.figure_data import FigureData
from quadric.studies.figures.style import BLACK, BLUE, GREEN, GREY, VERMILION, Drawn, panels
from quadric.studies.receptive_field import log_half_space_share, log_slab_share
from quadric.studies.sweep.rows import Row

FIRST, SECOND = (0.94, 0.34), (-0.34, 0.94)
SHARES = (1.0, 0.6)
"""Weights of the two atoms in the mixtures."""
THRESHOLD = 0.5
REACH = 1.8
RESOLUTION = 181
CSV_STEP = 9

Field = Callable[[Tensor, Tensor], Tensor]
"""Activation as a function of the projections onto both atoms."""

LINEAR: dict[str, Field] = {
    "w₁: half-space": lambda a, b: a,
    "w₂: half-space": lambda a, b: b,
    "w₁ + w₂: half-space": lambda a, b: SHARES[0] * a + SHARES[1] * b,
    "w₁ − w₂: half-space": lambda a, b: SHARES[0] * a - SHARES[1] * b,
}
QUADRATIC: dict[str, Field] = {
    "w₁w₁ᵀ: slab": lambda a, b: a**2,
    "w₂w₂ᵀ: slab": lambda a, b: b**2,
    "sum: ellipsoid": lambda a, b: SHARES[0] * a**2 + SHARES[1] * b**2,
    "difference: hyperboloid": lambda a, b: SHARES[0] * a**2 - SHARES[1] * b**2,
}


def draw_receptive_fields(data: FigureData) -> Drawn:
    """Two atoms, alone and mixed; needs no run. Blue: z > τ. Vermilion: z < −τ. Lines: |z| = τ."""
    line = torch.linspace(-REACH, REACH, RESOLUTION, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    projections = [w[0] * x + w[1] * y for w in (FIRST, SECOND)]
    figure, axes = panels(2, 4, 3.6, sharex=True, sharey=True)
    rows: list[Row] = []
    for number, (kind, fields) in enumerate({"linear": LINEAR, "quadratic": QUADRATIC}.items()):
        for panel, (title, field) in zip(axes[number], fields.items(), strict=True):
            values = field(*projections)
            _panel(panel, line, values, rectified=kind == "linear")
            panel.set_title(title)
            rows += _samples(kind, title, x, y, values)
        axes[number][0].set_ylabel(kind)
    return Drawn(figure, rows)


def _panel(axes: Any, line: Tensor, values: Tensor, *, rectified: bool) -> None:
    """Region where a latent fires. A linear latent is rectified, so it has no negative side."""
    grid = line.numpy()
    largest = values.max().item() + 1
    axes.contourf(grid, grid, values.numpy(), levels=[THRESHOLD, largest], colors=[BLUE], alpha=0.35)
    axes.contour(grid, grid, values.numpy(), levels=[THRESHOLD], colors=[BLUE], linewidths=1.2)
    if not rectified and values.min() < -THRESHOLD:
        lowest = values.min().item() - 1
        axes.contourf(
            grid, grid, values.numpy(), levels=[lowest, -THRESHOLD], colors=[VERMILION], alpha=0.3, hatches=["//"]
        )
        axes.contour(grid, grid, values.numpy(), levels=[-THRESHOLD], colors=[VERMILION], linewidths=1.2)
    for direction in (FIRST, SECOND):
        axes.annotate("", direction, (0, 0), arrowprops={"arrowstyle": "->", "color": BLACK, "lw": 0.9})
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])


def _samples(kind: str, title: str, x: Tensor, y: Tensor, values: Tensor) -> list[Row]:
    thin = (slice(None, None, CSV_STEP),) * 2
    columns = [each[thin].flatten().tolist() for each in (x, y, values)]
    return [{"kind": kind, "panel": title, "x": a, "y": b, "z": z} for a, b, z in zip(*columns, strict=True)]


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


def draw_receptive_gap(data: FigureData) -> Drawn:
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
