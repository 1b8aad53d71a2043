"""Agreement between several autoencoders: matrices of similarities, with the values expected by chance."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from quadric._io.progress import Progress, no_progress
from quadric._io.results import json_text, write_result
from quadric.geometry.comparison import NULL_SEED, Agreement, Comparison, Portrait, compare_portraits, portrait
from quadric.geometry.dictionary import as_forms
from quadric.geometry.similarity import HungarianSimilarity, comparable, in_common_coordinates, random_forms
from quadric.model import Dictionary


class Measure(NamedTuple):
    """One number of an agreement, with its label."""

    label: str
    of: Callable[[Agreement], float]


MEASURES = {
    "frobenius": Measure("Sim_F: dictionaries as wholes", lambda found: found.frobenius),
    "hungarian": Measure("Sim_H: matched latents, as printed", lambda found: found.hungarian.similarity),
    "hungarian_symmetric": Measure("Sim_H: normalized by both", lambda found: found.hungarian.symmetric),
    "alignment": Measure("alignment: matched latents", lambda found: found.hungarian.alignment),
    "hungarian_sign_free": Measure("Sim_H ±: W and −W alike", lambda found: found.sign_free.similarity),
    "alignment_sign_free": Measure(
        "alignment ±: matched latents, W and −W alike", lambda found: found.sign_free.alignment
    ),
    "eigenspaces": Measure("eigenspaces: leading ones", lambda found: found.eigenspaces),
}
RELATIVE_TO_SECOND = ("hungarian", "hungarian_sign_free")
"""Measures divided by ‖K'‖ alone; with the two exchanged, they are divided by ‖K‖ instead."""
SHOWN = ("frobenius", "hungarian", "alignment_sign_free")
"""Measures that are shown as matrices."""
ENDINGS = (".json", ".png")
LARGEST_ANNOTATED = 12
"""Most runs for which a heat map has its numbers written into it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunComparison:
    """Every pair of runs, compared once."""

    runs: tuple[str, ...]
    norms: tuple[float, ...]
    """‖K‖ of each run."""
    pairs: dict[tuple[int, int], Comparison]
    """By the indices of both runs, the smaller one first."""

    def matrix(self, measure: str) -> list[list[float]]:
        """The measure between all runs; row i, column j is the similarity of i to j."""
        values = [[1.0] * len(self.runs) for _ in self.runs]
        for (i, j), comparison in self.pairs.items():
            value = MEASURES[measure].of(comparison.agreement)
            values[i][j] = values[j][i] = value
            if measure in RELATIVE_TO_SECOND and self.norms[i]:
                values[j][i] = value * self.norms[j] / self.norms[i]
        return values

    def as_json(self) -> dict[str, Any]:
        """Matrices, and every pair with its nulls, its assignment and the cosines of matched forms."""
        return {
            "runs": list(self.runs),
            "matrices": {measure: self.matrix(measure) for measure in MEASURES},
            "pairs": [_pair_as_json(i, j, comparison) for (i, j), comparison in self.pairs.items()],
        }


def compare_runs(
    runs: Sequence[str],
    autoencoders: Sequence[Dictionary],
    *,
    null_seed: int = NULL_SEED,
    force: bool = False,
    on_progress: Progress = no_progress,
) -> RunComparison:
    """Every measure between all pairs."""
    for autoencoder in autoencoders:
        comparable(autoencoder, autoencoders[0], force)
    chosen = in_common_coordinates([as_forms(autoencoder) for autoencoder in autoencoders])
    portraits: list[Portrait] = []
    pairs: dict[tuple[int, int], Comparison] = {}
    n_pairs = len(chosen) * (len(chosen) - 1) // 2
    for j, forms in enumerate(chosen):
        portraits.append(portrait(forms))
        if not j:
            continue
        null = portrait(random_forms(forms, null_seed))
        for i in range(j):
            pairs[i, j] = compare_portraits(portraits[i], portraits[j], null)
            on_progress("comparing", len(pairs), n_pairs, "")
    norms = tuple(known.energy**0.5 for known in portraits)
    return RunComparison(runs=tuple(runs), norms=norms, pairs=pairs)


def _pair_as_json(i: int, j: int, comparison: Comparison) -> dict[str, Any]:
    rotated = {"frobenius": comparison.rotated_frobenius, "eigenspaces": comparison.rotated_eigenspaces}
    return {
        "first": i,
        "second": j,
        "agreement": {name: measure.of(comparison.agreement) for name, measure in MEASURES.items()},
        "random_initialization": {name: measure.of(comparison.random) for name, measure in MEASURES.items()},
        "random_rotation": rotated,
        "matched": _matched(comparison.agreement.hungarian),
        "matched_sign_free": _matched(comparison.agreement.sign_free),
    }


def _matched(found: HungarianSimilarity) -> dict[str, list[Any]]:
    return {
        "latents": found.latents.tolist(),
        "partners": found.partners.tolist(),
        "cosines": found.cosines.tolist(),
    }


def short_names(runs: Sequence[str]) -> list[str]:
    """The last parts of the paths, as many as are needed to distinguish them."""
    parts = [run.rstrip("/").split("/") for run in runs]
    for length in range(1, max(len(part) for part in parts) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} #{place}" for place, name in enumerate(runs, 1)]


def write_comparison(comparison: RunComparison, path: Path) -> None:
    """Write heat maps (.png) or everything (.json), chosen by the ending of the path."""
    as_json, as_png = (lambda: json_text(comparison.as_json())), (lambda: comparison_as_png(comparison))
    write_result(path, {".json": as_json, ".png": as_png})


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
