"""Curves of `make reproduce-large`: held-out error over the steps of training, and whether it has stopped falling."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from large_cells import PAPER_ALPHA, Settings, curve_path, name_of, only_autoencoder, read_curve
from large_measured import is_unpenalized

from quadric.run.config import RunConfig
from quadric.studies.figures.style import AFFINE_LOOKS, LOOKS, Drawn, Look, panels, styled
from quadric.studies.sweep.rows import Row

FLAT = 0.02
"""A curve counts as flat if the error falls by less than this share over the last quarter of the steps."""
ALPHA_MARKERS = {0.0: "v", 0.1: "<", 1.0: ">"}
"""Of the composite cells at other weights of the density penalty than the paper's."""
NO_PENALTY = ", no penalty on the mean"


def convergence(configs: list[RunConfig], work: Path) -> list[Row]:
    """Held-out error by step of every cell, also of those that are still being trained; none from its start alone."""
    curves = {name_of(config): read_curve(curve_path(work, name_of(config))) for config in configs}
    return [
        {"cell": name, "step": step, "error": error}
        for name, curve in curves.items()
        for step, error in curve.items()
        if len(curve) > 1
    ]


def fall_over_the_last_quarter(curve: dict[int, float], steps: int) -> float | None:
    """Share of the error that the last quarter of the steps removes; None for a curve that has not reached its end."""
    before = [step for step in curve if step <= 0.75 * steps]
    if steps not in curve or not before:
        return None
    earlier = curve[max(before)]
    return (earlier - curve[steps]) / earlier


def flatness(rows: list[Row], steps: int, words: dict[str, str]) -> Iterator[str]:
    """How far each curve still falls over its last quarter; `words` by the names of the cells."""
    for name in dict.fromkeys(row["cell"] for row in rows):
        curve = {row["step"]: row["error"] for row in rows if row["cell"] == name}
        last, fall = max(curve), fall_over_the_last_quarter(curve, steps)
        if fall is None:
            yield f"| {words[name]} | {last} | – | {curve[last]:.4f} | – | unfinished |"
            continue
        earlier = curve[max(step for step in curve if step <= 0.75 * last)]
        verdict = "flat" if abs(fall) < FLAT else "still falling" if fall > 0 else "rising"
        yield f"| {words[name]} | {last} | {earlier:.4f} | {curve[last]:.4f} | {fall:+.1%} | {verdict} |"


def order_at_equal_steps(configs: list[RunConfig], rows: list[Row], settings: Settings) -> str:
    """Errors of the priors and TopK at the last step that all of them have reached, also of unfinished cells."""
    curves = {}
    for config in configs:
        cell = only_autoencoder(config)
        is_linear = cell.kind != "bilinear"
        printed = is_linear or (cell.lens, cell.alpha) == ("paper", PAPER_ALPHA)
        if printed and (cell.n_latents, cell.seed) == (settings.n_latents, 0):
            curve = {row["step"]: row["error"] for row in rows if row["cell"] == name_of(config)}
            curves[cell.kind if is_linear else cell.prior] = curve
    started = {kind: curve for kind, curve in curves.items() if len(curve) > 1}
    if len(started) < 2:
        return ""
    step = max(set.intersection(*map(set, started.values())))
    order = sorted(started, key=lambda kind: started[kind][step])
    said = " < ".join(f"{kind} {started[kind][step]:.4f}" for kind in order)
    return f"After {step} steps, the last that {', '.join(started)} have all reached: {said}."


def draw_convergence(configs: list[RunConfig], rows: list[Row]) -> Drawn:
    """One line for each main cell."""
    with styled():
        figure, ((axes,),) = panels(1, 1, 4.2, width=5.6)
        for config in configs:
            name, look = name_of(config), _look(config)
            line = [(row["step"], row["error"]) for row in rows if row["cell"] == name]
            if line:
                steps, errors = zip(*line, strict=True)
                cell = only_autoencoder(config)
                marker = ALPHA_MARKERS.get(cell.alpha, look.marker) if look is LOOKS["composite"] else look.marker
                marker = "x" if is_unpenalized(cell) else marker
                style: dict[str, Any] = {"color": look.colour, "marker": marker, "markersize": 3, "linewidth": 1}
                axes.plot(steps, errors, look.dashes, alpha=1 - 0.5 * cell.seed, label=_label(config, look), **style)
        axes.set_xlabel("steps")
        axes.set_ylabel("held-out error")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
    return Drawn(figure, rows)


def _look(config: RunConfig) -> Look:
    cell = only_autoencoder(config)
    if cell.kind != "bilinear":
        return LOOKS[cell.kind]
    return (LOOKS if cell.lens == "paper" else AFFINE_LOOKS)[cell.prior]


def in_words(configs: list[RunConfig]) -> dict[str, str]:
    """What each cell is, by its name, which is too long for a table."""
    return {name_of(each): f"{_label(each, _look(each))}, k = {only_autoencoder(each).n_latents:,}" for each in configs}


def _label(config: RunConfig, look: Look) -> str:
    cell = only_autoencoder(config)
    alpha = f", α = {cell.alpha:g}" if cell.kind == "bilinear" else ""
    penalty = NO_PENALTY if is_unpenalized(cell) else ""
    return f"{look.label}{alpha}{penalty}" + (f", seed {cell.seed}" if cell.seed else "")
