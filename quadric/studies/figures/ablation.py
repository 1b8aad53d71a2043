"""Does ablating a latent hurt the tokens on which it fires, and no others? The paper leaves this test open."""

from typing import Any

from quadric.evaluation.measures import student_interval
from quadric.studies.figures.figure_data import FigureData, MissingDataError
from quadric.studies.figures.style import BLUE, GREY, ORANGE, Drawn, panels
from quadric.studies.sweep.rows import Row

LOOKS = {
    "own": ("the latent itself", BLUE, "o"),
    "other": ("another latent", ORANGE, "^"),
    "turned": ("same form, turned", GREY, "x"),
}


def draw(data: FigureData) -> Drawn:
    """Increase of the cross-entropy where a latent fires against elsewhere: every latent, and means with intervals."""
    if len(data.ablations) < 2:
        raise MissingDataError("no ablated latents; run: quadric ablate runs/demo")
    figure, ((every, means),) = panels(1, 2, 2.8, gridspec_kw={"width_ratios": [1.4, 1]})
    for name, (label, colour, marker) in LOOKS.items():
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
    for place, (name, (label, colour, marker)) in enumerate(LOOKS.items()):
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
    axes.set_xticks(range(len(LOOKS)), [label.replace(" ", "\n", 1) for label, _, _ in LOOKS.values()])
    axes.set_xlim(-0.5, len(LOOKS) - 0.5)
    axes.set_ylabel("mean; pale: elsewhere")
    return rows
