"""Agreement of autoencoders trained from different seeds, as a whole and per latent, next to chance."""

from itertools import combinations
from statistics import mean
from typing import Any

from quadric.geometry.comparison import NULL_SEED, Portrait, agreement, portrait
from quadric.geometry.similarity import comparable, in_common_coordinates, randomly_initialized
from quadric.studies.figures.figure_data import FigureData, MissingDataError, Trained
from quadric.studies.figures.similarity import measured
from quadric.studies.figures.style import GREY, LOOKS, Drawn, panels
from quadric.studies.sweep.rows import Row

PRIORS = ("atomic", "composite", "quadratic")
MEASURES = {
    "frobenius": "Sim_F",
    "hungarian_symmetric": "Sim_H (normalized by both)",
    "alignment": "alignment ±",
}


def draw(data: FigureData) -> Drawn:
    """Points: pairs of seeds. Bars: their mean. Grey: mean similarity to a random initialization."""
    families = _families(data)
    rows = [row for prior, family in families.items() for row in _pairs(prior, family)]
    figure, (axes,) = panels(1, len(MEASURES), 2.3, sharey=True)
    for panel, (measure, title) in zip(axes, MEASURES.items(), strict=True):
        for place, prior in enumerate(families):
            _column(panel, place, prior, [row for row in rows if row["prior"] == prior], measure)
        panel.set_title(title)
        panel.set_xticks(range(len(families)), [LOOKS[prior].label for prior in families])
        panel.set_xlim(-0.5, len(families) - 0.5)
        panel.set_ylim(0, 1.03)
    axes[0].set_ylabel("similarity")
    handles, labels = axes[0].get_legend_handles_labels()
    legend = dict(zip(labels, handles, strict=True))
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=3)
    return Drawn(figure, rows)


def _families(data: FigureData) -> dict[str, list[Trained]]:
    found = [each for each in data.at_commonest_size(*PRIORS) if each.alpha == data.main_alpha]
    families = {prior: [each for each in found if each.kind == prior] for prior in PRIORS}
    families = {prior: family for prior, family in families.items() if len(family) > 1}
    if not families:
        raise MissingDataError(
            "no prior was trained from several seeds; run: quadric sweep --layers 15 --prior atomic composite "
            "quadratic --seeds 0 1 2 --out runs/seeds"
        )
    return families


def _pairs(prior: str, family: list[Trained]) -> list[Row]:
    loaded = [each.load() for each in family]
    alike = in_common_coordinates([comparable(each, each)[0] for each in loaded])
    portraits = [portrait(each) for each in alike]
    null = portrait(randomly_initialized(alike[0], NULL_SEED))
    seeds = [each.cell.seed for each in family]
    rows = [
        _row(prior, str(seeds[i]), str(seeds[j]), portraits[i], portraits[j])
        for i, j in combinations(range(len(family)), 2)
    ]
    return rows + [_row(prior, str(seed), "random", mine, null) for seed, mine in zip(seeds, portraits, strict=True)]


def _row(prior: str, seed: str, other_seed: str, mine: Portrait, other: Portrait) -> Row:
    return {"prior": prior, "seed": seed, "other": other_seed, **measured(agreement(mine, other))}


def _column(axes: Any, place: int, prior: str, rows: list[Row], measure: str) -> None:
    look = LOOKS[prior]
    between = [row[measure] for row in rows if row["other"] != "random"]
    chance = [row[measure] for row in rows if row["other"] == "random"]
    axes.bar(place, mean(between), width=0.5, color=look.colour, alpha=0.3)
    axes.scatter([place] * len(between), between, s=14, color=look.colour, marker=look.marker, zorder=3)
    axes.scatter([place + 0.36], [mean(chance)], s=40, color=GREY, marker="_", label="against a random initialization")
