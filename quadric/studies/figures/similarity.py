"""Agreement of autoencoders that differ only in alpha or in their seed: as a whole (Sim_F) and per latent (Sim_H).

Over alpha, the first entry of every matrix is a random initialization; the last are the other priors at the default
alpha. Between seeds, agreement stands next to chance.
"""

from itertools import combinations
from statistics import mean
from typing import Any, NamedTuple

from quadric.geometry.comparison import NULL_SEED, Agreement, Portrait, agreement, portrait
from quadric.geometry.dictionary import as_forms
from quadric.geometry.similarity import in_common_coordinates, random_forms
from quadric.studies.figures.figure_data import FigureData, MissingDataError, Trained
from quadric.studies.figures.style import GREY, LOOKS, Drawn, panels
from quadric.studies.sweep.rows import Row

MEASURES = {"frobenius": "Sim_F", "hungarian_symmetric": "Sim_H", "alignment": "alignment ±"}
"""Sim_H as printed divides by ‖K'‖ alone and can exceed 1, so the figure shows the one normalized by both kernels.
The CSV has both."""
FEWEST = 2
LARGEST_ANNOTATED = 6


class Entry(NamedTuple):
    """One row or column of the matrices."""

    label: str
    portrait: Portrait


def draw_similarity(data: FigureData) -> Drawn:
    """One row of matrices per prior: Sim_F, Sim_H, and the alignment of matched latents up to sign."""
    families = _families_over_alpha(data)
    figure, axes = panels(len(families), len(MEASURES), 0.5 + 2.3 * len(families))
    rows: list[Row] = []
    image: Any = None
    for line, (prior, family) in zip(axes, families.items(), strict=True):
        own = _entries(family)
        others = [
            Entry(LOOKS[other].label, _portrait(each))
            for other, members in families.items()
            for each in members
            if other != prior and each.alpha == data.main_alpha
        ]
        found = _agreements(own, others)
        rows += _matrix_rows(prior, own, others, found)
        for panel, measure in zip(line, MEASURES, strict=True):
            image = _matrix(panel, own, others, [[cell[measure] for cell in row] for row in found])
            panel.set_title(f"{LOOKS[prior].label}: {MEASURES[measure]}")
        line[0].set_ylabel("alpha")
    figure.colorbar(image, ax=[panel for line in axes for panel in line], shrink=0.7, aspect=30)
    return Drawn(figure, rows)


def _families_over_alpha(data: FigureData) -> dict[str, list[Trained]]:
    """For each prior, one autoencoder per alpha."""
    families: dict[str, list[Trained]] = {}
    for each in data.at_commonest_size(*LOOKS):
        family = families.setdefault(each.kind, [])
        if each.alpha not in [member.alpha for member in family]:
            family.append(each)
    if not any(len(family) >= FEWEST for family in families.values()):
        raise MissingDataError(
            "no prior was trained at several alphas; run: quadric sweep --layers 15 --prior composite "
            "quadratic --alpha 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 --out runs/alphas"
        )
    return {prior: family for prior, family in families.items() if len(family) >= FEWEST}


def _portrait(trained: Trained) -> Portrait:
    return portrait(as_forms(trained.load()))


def _entries(family: list[Trained]) -> list[Entry]:
    random = portrait(random_forms(as_forms(family[0].load()), NULL_SEED))
    return [Entry("random", random), *(Entry(f"{each.alpha:g}", _portrait(each)) for each in family)]


def _agreements(own: list[Entry], others: list[Entry]) -> list[list[dict[str, float]]]:
    """All measures between each own entry and all entries. Each pair is matched once and used in both directions."""
    found: list[list[dict[str, float]]] = [[{} for _ in [*own, *others]] for _ in own]
    for i, mine in enumerate(own):
        for j, other in enumerate([*own, *others]):
            if j < i:
                continue
            between = agreement(mine.portrait, other.portrait)
            found[i][j] = measured(between)
            if j < len(own):
                # Sim_H as printed divides by the second kernel's norm ‖K'‖; in the other direction, by ‖K‖.
                ratio = (other.portrait.energy / mine.portrait.energy) ** 0.5
                found[j][i] = found[i][j] | {"hungarian": found[i][j]["hungarian"] * ratio}
    return found


def measured(between: Agreement) -> dict[str, float]:
    """The numbers in the figure and its CSV."""
    return {
        "frobenius": between.frobenius,
        "hungarian": between.hungarian.similarity,
        "hungarian_symmetric": between.hungarian.symmetric,
        "alignment": between.sign_free.alignment,
    }


def _matrix_rows(prior: str, own: list[Entry], others: list[Entry], found: list[list[dict[str, float]]]) -> list[Row]:
    return [
        {"prior": prior, "row": mine.label, "column": other.label, **found[i][j]}
        for i, mine in enumerate(own)
        for j, other in enumerate([*own, *others])
    ]


def _matrix(axes: Any, own: list[Entry], others: list[Entry], values: list[list[float]]) -> Any:
    image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    labels = [entry.label for entry in [*own, *others]]
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=6.5)
    axes.set_yticks(range(len(own)), labels[: len(own)], fontsize=6.5)
    for edge in (0.5, len(own) - 0.5):  # separate the random initialization and the other priors
        axes.axvline(edge, color="white", linewidth=1.5)
    axes.axhline(0.5, color="white", linewidth=1.5)
    if len(labels) <= LARGEST_ANNOTATED:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color="w" if value < 0.6 else "k")
    return image


PRIORS = ("atomic", "composite", "quadratic")
TITLES = {
    "frobenius": "Sim_F",
    "hungarian_symmetric": "Sim_H (normalized by both)",
    "alignment": "alignment ±",
}


def draw_stability(data: FigureData) -> Drawn:
    """Points: pairs of seeds. Bars: their mean. Grey: mean similarity to a random initialization."""
    families = _families_over_seeds(data)
    rows = [row for prior, family in families.items() for row in _pairs(prior, family)]
    figure, (axes,) = panels(1, len(TITLES), 2.3, sharey=True)
    for panel, (measure, title) in zip(axes, TITLES.items(), strict=True):
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


def _families_over_seeds(data: FigureData) -> dict[str, list[Trained]]:
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
    alike = in_common_coordinates([as_forms(each.load()) for each in family])
    portraits = [portrait(each) for each in alike]
    null = portrait(random_forms(alike[0], NULL_SEED))
    seeds = [each.cell.seed for each in family]
    rows = [
        _pair_row(prior, str(seeds[i]), str(seeds[j]), portraits[i], portraits[j])
        for i, j in combinations(range(len(family)), 2)
    ]
    return rows + [
        _pair_row(prior, str(seed), "random", mine, null) for seed, mine in zip(seeds, portraits, strict=True)
    ]


def _pair_row(prior: str, seed: str, other_seed: str, mine: Portrait, other: Portrait) -> Row:
    return {"prior": prior, "seed": seed, "other": other_seed, **measured(agreement(mine, other))}


def _column(axes: Any, place: int, prior: str, rows: list[Row], measure: str) -> None:
    look = LOOKS[prior]
    between = [row[measure] for row in rows if row["other"] != "random"]
    chance = [row[measure] for row in rows if row["other"] == "random"]
    axes.bar(place, mean(between), width=0.5, color=look.colour, alpha=0.3)
    axes.scatter([place] * len(between), between, s=14, color=look.colour, marker=look.marker, zorder=3)
    axes.scatter([place + 0.36], [mean(chance)], s=40, color=GREY, marker="_", label="against a random initialization")
