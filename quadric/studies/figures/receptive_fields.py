"""Receptive fields of linear and quadratic atoms in the plane: half-spaces, slabs, and their sums."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from quadric.studies.figures.figure_data import FigureData
from quadric.studies.figures.style import BLACK, BLUE, VERMILION, Drawn, panels
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


def draw(data: FigureData) -> Drawn:
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
