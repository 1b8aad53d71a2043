"""The first latents by index, without selection: their tokens in the coordinates of the leading eigenvectors."""

from typing import Any

import numpy as np

from quadric.evaluation.measures import DENSE
from quadric.evidence import Evidence
from quadric.geometry import statistics
from quadric.geometry.spectra import captured_curve
from quadric.run.folder import evidence_folder
from quadric.studies.figures.figure_data import FigureData, MissingDataError, Trained
from quadric.studies.figures.style import GREY, Drawn, panels
from quadric.studies.sweep.rows import Row

SHOWN = 6
POINTS = 1000
AXES = 3


def draw(data: FigureData) -> Drawn:
    """Six scatter plots coloured by activation. Dense latents are skipped, and the title states their share."""
    trained, evidence = _first_with_evidence(data)
    density = np.asarray(evidence.statistics.density)
    alive = np.asarray(evidence.statistics.mean_square) > 0
    chosen = np.flatnonzero(alive & (density <= DENSE))[:SHOWN].tolist()
    if not chosen:
        raise MissingDataError(f"all latents of {trained.config.name} are dense (density over {DENSE}) or silent")
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
        f"{trained.config.prior}, {trained.config.hook_point}: first latents by index, {dense:.0%} dense ones left out;"
        "\npoints drawn by |z|⁴; violet z < 0, green z > 0",
        fontsize=8,
    )
    return Drawn(figure, rows)


def _first_with_evidence(data: FigureData) -> tuple[Trained, Evidence]:
    """The first autoencoder with evidence; composite ones come first, as in the paper."""
    order = sorted(data.trained, key=lambda each: (each.config.prior != "composite", each.config.name))
    for each in order:
        # An autoencoder's own folder can also be used as a run, with the evidence inside it.
        for place in (each.evidence, evidence_folder(each.folder, each.config.name)):
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
