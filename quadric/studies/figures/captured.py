"""Share of each latent captured by its leading eigenvalues: composite against quadratic latents."""

from typing import Any

import torch
from torch import Tensor

from quadric.geometry import statistics
from quadric.geometry.spectra import captured_curve
from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.style import LOOKS, Drawn, panels
from quadric.studies.sweep.rows import Row

PRIORS = ("composite", "quadratic")
RANKS = (1, 3, 5)
BINS = 25
TICKS = (1, 3, 10, 30, 100, 300, 1000)


def draw(data: FigureData) -> Drawn:
    """Histograms over latents at rank 1, 3 and 5, and median and quartiles as a function of rank."""
    curves = _curves(data)
    figure, (axes,) = panels(1, len(RANKS) + 1, 2.2, gridspec_kw={"width_ratios": [1] * len(RANKS) + [1.5]})
    rows: list[Row] = []
    for rank, panel in zip(RANKS, axes, strict=False):
        rows += _histogram(panel, curves, rank)
    axes[0].set_ylabel("share of latents")
    for panel in axes[1 : len(RANKS)]:
        panel.sharey(axes[0])
        panel.tick_params(labelleft=False)
    rows += _medians(axes[-1], curves)
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return Drawn(figure, rows)


def _curves(data: FigureData) -> dict[str, Tensor]:
    """For each prior, the curves of all nonzero latents of the first seed."""
    found = data.at_commonest_size(*PRIORS)
    curves = {}
    for prior in PRIORS:
        first = next(
            (each for each in found if (each.config.prior, each.config.alpha) == (prior, data.main_alpha)), None
        )
        if first is None:
            raise MissingDataError(
                f"no {prior} autoencoder at alpha {data.main_alpha:g} to compare with the other prior; run: "
                "quadric sweep --layers 15 --prior composite quadratic --out runs/captured"
            )
        eigenvalues = statistics(first.load()).eigenvalues
        curves[prior] = captured_curve(eigenvalues[eigenvalues[:, 0] != 0])
    return curves


def at_rank(curve: Tensor, rank: int) -> Tensor:
    """Share captured by the first `rank` eigenvalues; everything if a latent has fewer."""
    return curve[:, min(rank, curve.shape[1]) - 1]


def _histogram(axes: Any, curves: dict[str, Tensor], rank: int) -> list[Row]:
    rows = []
    edges = torch.linspace(0, 1, BINS + 1, dtype=torch.float64)
    for prior, curve in curves.items():
        values = at_rank(curve, rank).clamp(0, 1)
        shares = torch.histogram(values, edges).hist / len(values)
        look = LOOKS[prior]
        axes.stairs(shares.numpy(), edges.numpy(), color=look.colour, fill=True, alpha=0.25)
        axes.stairs(shares.numpy(), edges.numpy(), color=look.colour, linestyle=look.dashes, linewidth=1.2)
        rows += [
            {"panel": f"histogram, rank {rank}", "prior": prior, "x": x, "value": value}
            for x, value in zip(edges[:-1].tolist(), shares.tolist(), strict=True)
        ]
    axes.set_title(f"rank {rank}")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.set_xlabel("captured")
    return rows


def _medians(axes: Any, curves: dict[str, Tensor]) -> list[Row]:
    rows = []
    longest = max(curve.shape[1] for curve in curves.values())
    for prior, curve in curves.items():
        look = LOOKS[prior]
        padded = torch.cat([curve, curve[:, -1:].expand(-1, longest - curve.shape[1])], dim=1)
        low, median, high = padded.quantile(padded.new_tensor([0.25, 0.5, 0.75]), dim=0).tolist()
        ranks = range(1, longest + 1)
        axes.plot(ranks, median, look.dashes, color=look.colour, label=f"{look.label} ({len(curve):,} latents)")
        axes.fill_between(ranks, low, high, color=look.colour, alpha=0.18, lw=0)
        rows += [
            {"panel": "median", "prior": prior, "x": x, "value": m, "low": lo, "high": hi}
            for x, m, lo, hi in zip(ranks, median, low, high, strict=True)
        ]
    axes.set_title("median and quartiles")
    axes.set_xscale("log")
    ticks = [tick for tick in TICKS if tick <= longest]
    axes.set_xticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.set_xlabel("rank")
    axes.set_ylim(0, 1.03)
    axes.set_ylabel("captured")
    return rows
