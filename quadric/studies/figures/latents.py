"""Figures of single latents: the share that leading eigenvalues capture, the tokens of the first ones, and ablations.

The paper leaves the last open: does ablating a latent hurt the tokens on which it fires, and no others?
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadric.evaluation.measures import DENSE, student_interval
from quadric.evidence import Evidence
from quadric.geometry import statistics
from quadric.geometry.spectra import captured_curve
from quadric.run.folder import evidence_folder
from quadric.studies.figures.figure_data import FigureData, MissingDataError, Trained
from quadric.studies.figures.style import BLUE, GREY, LOOKS, ORANGE, Drawn, panels
from quadric.studies.sweep.rows import Row

PRIORS = ("composite", "quadratic")
RANKS = (1, 3, 5)
BINS = 25
TICKS = (1, 3, 10, 30, 100, 300, 1000)


def draw_captured(data: FigureData) -> Drawn:
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
        first = next((each for each in found if (each.kind, each.alpha) == (prior, data.main_alpha)), None)
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


SHOWN = 6
POINTS = 1000
AXES = 3


def draw_random_latents(data: FigureData) -> Drawn:
    """Six scatter plots coloured by activation. Dense latents are skipped, and the title states their share."""
    trained, evidence = _first_with_evidence(data)
    density = np.asarray(evidence.statistics.density)
    alive = np.asarray(evidence.statistics.mean_square) > 0
    chosen = np.flatnonzero(alive & (density <= DENSE))[:SHOWN].tolist()
    if not chosen:
        raise MissingDataError(f"all latents of {trained.cell.name} are dense (density over {DENSE}) or silent")
    captured = captured_curve(statistics(trained.load(), centre=evidence.calibration.tokens_centre()).eigenvalues)
    columns = min(3, len(chosen))
    figure, axes = panels(
        -(-len(chosen) // columns), columns, 2.3 * -(-len(chosen) // columns), subplot_kw={"projection": "3d"}
    )
    cells = [panel for line in axes for panel in line]
    rows = [row for panel, latent in zip(cells, chosen, strict=False) for row in _scatter(panel, evidence, latent)]
    for panel, latent in zip(cells, chosen, strict=False):
        share = captured[latent, min(AXES, captured.shape[1]) - 1].item()
        panel.set_title(f"latent {latent}: {_plain(evidence.labels.of(latent))}\n3 axes capture {share:.0%}", y=0.98)
    for panel in cells[len(chosen) :]:
        panel.set_axis_off()
    dense = float((alive & (density > DENSE)).mean())
    figure.suptitle(
        f"{trained.kind}, {trained.cell.hook_point}: first latents by index, {dense:.0%} dense ones left out;"
        "\npoints drawn by |z|⁴; violet z < 0, green z > 0",
        fontsize=8,
    )
    return Drawn(figure, rows)


def _first_with_evidence(data: FigureData) -> tuple[Trained, Evidence]:
    """The first autoencoder with evidence; composite ones come first, as in the paper."""
    order = sorted(data.trained, key=lambda each: (each.kind != "composite", each.cell.name))
    for each in order:
        # An autoencoder's own folder can also be used as a run, with the evidence inside it.
        for place in (each.evidence, evidence_folder(each.folder, each.cell.name)):
            if place.is_dir():
                return each, Evidence.load(place)
    raise MissingDataError("no autoencoder has evidence; collect it with: quadric site RUN --out site")


def _plain(label: str, longest: int = 26) -> str:
    """Shorten a label to the width of a panel; escape $, which matplotlib reads as mathematics."""
    short = label if len(label) <= longest else label[: longest - 1] + "…"
    return short.replace("$", r"\$")


def _scatter(axes: Any, evidence: Evidence, latent: int) -> list[Row]:
    there = np.flatnonzero(np.asarray(evidence.points.places[latent]) >= 0)[:POINTS]
    values = np.asarray(evidence.points.values[latent])[there]
    places = np.zeros((len(there), AXES), dtype=np.float32)
    stored = np.asarray(evidence.points.coordinates[latent])[there][:, :AXES]
    places[:, : stored.shape[1]] = stored
    largest = max(float(np.abs(values).max()), 1e-30)
    # Thousands of points are rasterized in the SVG too; as vectors they would take a megabyte.
    looks = {"s": 6, "linewidths": 0.25, "edgecolors": GREY, "rasterized": True}
    axes.scatter(*places.T, c=values, cmap="PRGn", vmin=-largest, vmax=largest, **looks)
    for letter in "xyz":
        getattr(axes, f"set_{letter}ticklabels")([])
        getattr(axes, f"{letter}axis").set_tick_params(length=0)
    tokens = [_token(evidence, place) for place in np.asarray(evidence.points.places[latent])[there].tolist()]
    return [
        {"latent": latent, "token": token, "x": x, "y": y, "z": z, "activation": value}
        for token, (x, y, z), value in zip(tokens, places.tolist(), values.tolist(), strict=True)
    ]


def _token(evidence: Evidence, place: int) -> str:
    return evidence.text.vocabulary[int(evidence.text.token_ids[place])].decode("utf-8", errors="replace")


ABLATION_LOOKS = {
    "own": ("the latent itself", BLUE, "o"),
    "other": ("another latent", ORANGE, "^"),
    "turned": ("same form, turned", GREY, "x"),
}


def draw_ablation(data: FigureData) -> Drawn:
    """Increase of the cross-entropy where a latent fires against elsewhere: every latent, and means with intervals."""
    if len(data.ablations) < 2:
        raise MissingDataError("no ablated latents; run: quadric ablate runs/demo")
    figure, ((every, means),) = panels(1, 2, 2.8, gridspec_kw={"width_ratios": [1.4, 1]})
    for name, (label, colour, marker) in ABLATION_LOOKS.items():
        elsewhere, fires = ([row[f"{name}_{where}"] for row in data.ablations] for where in ("elsewhere", "fires"))
        every.scatter(elsewhere, fires, s=14, marker=marker, color=colour, alpha=0.8, linewidths=0.8, label=label)
    _diagonal(every)
    every.set_xlabel("increase of cross-entropy elsewhere (nats)")
    every.set_ylabel("where the latent fires")
    rows = _means(means, data.ablations)
    figure.legend(*every.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return Drawn(figure, [*rows, *({"panel": "latents", **row} for row in data.ablations)])


def _diagonal(axes: Any) -> None:
    """Equal harm in both places; logarithmic beyond 0.1 nats, since a few latents matter much more than most."""
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_yscale("symlog", linthresh=0.1)
    low, high = (pick(*axes.get_xlim(), *axes.get_ylim()) for pick in (min, max))
    axes.plot([low, high], [low, high], color="#bbbbbb", lw=0.7, zorder=0)


def _means(axes: Any, ablations: tuple[Row, ...]) -> list[Row]:
    rows: list[Row] = []
    for place, (name, (label, colour, marker)) in enumerate(ABLATION_LOOKS.items()):
        for offset, where in ((-0.12, "fires"), (0.12, "elsewhere")):
            found = student_interval([row[f"{name}_{where}"] for row in ablations])
            axes.errorbar(
                place + offset,
                found.mean,
                yerr=[[found.mean - found.low], [found.high - found.mean]],
                color=colour,
                marker=marker,
                alpha=1 if where == "fires" else 0.45,
                capsize=2,
            )
            rows.append({"panel": "means", "ablated": label, "where": where, **found._asdict()})
    axes.axhline(0, color="#bbbbbb", lw=0.7, zorder=0)
    labels = [label.replace(" ", "\n", 1) for label, _, _ in ABLATION_LOOKS.values()]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_ylabel("mean; pale: elsewhere")
    return rows
