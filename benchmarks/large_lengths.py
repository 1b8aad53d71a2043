"""Held-out error against the length of training, from all records of `make reproduce-large`.

A page of `make reproduce-large` has one length. Side by side, the pages show which of their statements depend on it.

    python benchmarks/large_lengths.py
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from large_cells import Settings
from large_curves import FLAT, fall_over_the_last_quarter
from large_measured import AGREEMENTS, Finished
from large_record import NAME, REMEDY, read_settings

from quadric._io.files import read_json, write_atomically
from quadric.studies.figures.style import AFFINE_LOOKS, LOOKS, Drawn, panels, save, styled
from quadric.studies.sweep.rows import Row

ROOT = Path(__file__).parents[1]
KINDS = {
    "quadratic": ("quadratic", "paper"), "composite": ("composite", "paper"), "atomic": ("atomic", "paper"),
    "default": ("composite", "affine"), "TopK": ("topk", None),
}  # fmt: skip
"""Prior or kind, and lens, of each dictionary."""
TOPK = "TopK"
MEASURES = {
    "error": "Whole product space", "error_quadratic": "Quadratic block",
    "error_of_32_active": "With the 32 largest latents of every token",
}  # fmt: skip
TITLES = ("whole product space", "quadratic block", "32 latents per token")
"""Of the measures, in a figure."""
TELLING = {name: words for name, words in AGREEMENTS.items() if words != "Sim_H"}
"""Measures of agreement, but for Sim_H, which is as high for a random initialization."""
CHANCE = "chance: random initialization"
SCHEDULE = ("steps", "alpha_warmup_steps", "learning_rate", "learning_rate_decay")
"""Settings in which trainings may differ."""
SIZES = ("n_latents", "widths", "checkpoint_every")
"""Settings that say which cells a record has, and not how they were trained."""
CAPTION = (
    "Held-out error over the steps of training. Thin lines and hollow markers: a learning rate that falls to 0; all "
    "others have a constant one."
)


class Training(NamedTuple):
    """One record: its settings and what was measured with them."""

    folder: str
    found: Finished
    curves: dict[str, dict[int, float]]

    @property
    def settings(self) -> Settings:
        return self.found.settings

    @property
    def label(self) -> str:
        """Steps, and in what the schedule differs from that of the recipe."""
        settings, said = self.settings, []
        if settings.learning_rate_decay:
            said.append("falling rate")
        if settings.alpha_warmup_steps is not None:
            said.append(f"α over {settings.alpha_warmup_steps}")
        return ", ".join([f"{settings.steps:,} steps", *said])

    def row(self, name: str, n_latents: int) -> Row | None:
        """The first seed of one dictionary at the recipe's α."""
        kind, lens = KINDS[name]
        return self.found.cell(kind, n_latents, lens=lens)

    def is_flat(self, row: Row) -> bool:
        """Whether the curve has ended falling; never where the learning rate makes it end."""
        fall = fall_over_the_last_quarter(self.curves.get(row["cell"], {}), self.settings.steps)
        return not self.settings.learning_rate_decay and fall is not None and abs(fall) < FLAT


def read_trainings(results: Path) -> list[Training]:
    """All records below a folder of results: constant learning rates first, then by steps.

    Raises:
        ValueError: two records differ in more than sizes and schedule, such as the text.
    """
    found = [_training(path) for path in sorted(results.glob(f"*/{NAME}"))]
    if not found:
        raise ValueError(f"'{results}' has no folder with {NAME}; run make reproduce-large")
    first = found[0]
    for other in found[1:]:
        if different := _differences(first.settings, other.settings):
            raise ValueError(
                f"'{results / first.folder}' and '{results / other.folder}' differ in {', '.join(different)}, so their "
                "errors cannot stand in one table; move one of them"
            )
    return sorted(found, key=lambda each: (each.settings.learning_rate_decay, each.settings.steps))


def _differences(first: Settings, second: Settings) -> list[str]:
    names = [name for name in vars(first) if name not in (*SCHEDULE, *SIZES)]
    return [name for name in names if getattr(first, name) != getattr(second, name)]


def _training(path: Path) -> Training:
    record = read_json(path, REMEDY)
    parts: dict[str, dict[str, Any]] = {"rows": {}, "curves": {}, "comparisons": {}}
    for name, value in record["measured"].items():
        part, _, cell = name.partition("/")
        if part in parts:
            parts[part][cell.removesuffix(".json")] = value
    rows, comparisons = list(parts["rows"].values()), list(parts["comparisons"].values())
    curves = {cell: {int(step): error for step, error in each.items()} for cell, each in parts["curves"].items()}
    return Training(path.parent.name, Finished(rows, comparisons, [], {}, read_settings(record)), curves)


def sizes_to_compare(trainings: list[Training]) -> list[int]:
    """Numbers of latents that were trained for at least two lengths, largest first."""
    sizes = {row["n_latents"] for each in trainings for row in each.found.rows}
    return sorted((k for k in sizes if len(_with_size(trainings, k)) > 1), reverse=True)


def _with_size(trainings: list[Training], n_latents: int) -> list[Training]:
    return [each for each in trainings if any(each.row(name, n_latents) for name in KINDS)]


def table(trainings: list[Training], n_latents: int, measure: str) -> Iterator[str]:
    """One row per dictionary and one column per training; bold is below TopK."""
    columns = _with_size(trainings, n_latents)
    yield f"| | {' | '.join(f'[{each.label}]({each.folder}/claims.md)' for each in columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for name in KINDS:
        cells = [_cell(each, name, n_latents, measure) for each in columns]
        if any(cell != "–" for cell in cells):
            yield f"| {name} | {' | '.join(cells)} |"


def _cell(training: Training, name: str, n_latents: int, measure: str) -> str:
    row, topk = training.row(name, n_latents), training.row(TOPK, n_latents)
    if row is None or row[measure] is None:
        return "–"
    flat = "*" if measure == "error" and training.is_flat(row) else ""
    is_below = topk is not None and topk[measure] is not None and row[measure] < topk[measure]
    return f"**{row[measure]:.3f}**{flat}" if is_below else f"{row[measure]:.3f}{flat}"


def agreement(trainings: list[Training]) -> Iterator[str]:
    """Sim_F and alignment of composite dictionaries that differ in seed, or in α by little, beside chance."""
    yield f"| k | training | pair | {' | '.join(TELLING.values())} |"
    yield "|---" * (3 + len(TELLING)) + "|"
    for training in sorted(trainings, key=lambda each: -each.settings.n_latents):
        pairs = {words: each for each in training.found.comparisons if (words := _pair(each))}
        for words, compared in pairs.items() if pairs.keys() - {CHANCE} else ():
            values = " | ".join(f"{compared[name]:.3f}" if name in compared else "–" for name in TELLING)
            yield f"| {training.settings.n_latents:,} | {training.label} | {words} | {values} |"


def _pair(compared: dict[str, Any]) -> str | None:
    if compared["about"] == "alphas, composite":
        alphas = compared["alpha"], compared["other_alpha"]
        return f"α = {alphas[0]:g} and {alphas[1]:g}" if abs(alphas[0] - alphas[1]) < 0.25 else None
    return {"seeds, composite": "two seeds", "chance, composite": CHANCE}.get(compared["about"])


def draw(trainings: list[Training], sizes: list[int]) -> Drawn:
    """One row of panels per number of latents, one column per measure."""
    rows = []
    with styled():
        figure, axes = panels(len(sizes), len(MEASURES), 2.1 * len(sizes) + 0.5, sharex=True)
        for n_latents, across in zip(sizes, axes, strict=True):
            for measure, panel in zip(MEASURES, across, strict=True):
                for name in KINDS:
                    rows += _line(panel, trainings, name, n_latents, measure)
                panel.set_xscale("log", base=2)
                panel.set_ylim(bottom=0)
            across[0].set_ylabel(f"held-out error, k = {n_latents:,}")
        for panel, title in zip(axes[0], TITLES, strict=True):
            panel.set_title(title)
        steps = sorted({each.settings.steps for each in trainings})
        for panel in axes[-1]:
            panel.set_xticks(steps, [f"{each:,}" for each in steps])
            panel.minorticks_off()
            panel.set_xlabel("steps")
        shown = {label: line for row in axes for line, label in zip(*row[0].get_legend_handles_labels(), strict=True)}
        figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=len(KINDS))
    return Drawn(figure, rows)


def _line(axes: Any, trainings: list[Training], name: str, n_latents: int, measure: str) -> list[Row]:
    kind, lens = KINDS[name]
    look = AFFINE_LOOKS[kind] if lens == "affine" else LOOKS[kind]
    rows: list[Row] = [
        {"n_latents": n_latents, "dictionary": name, "measure": measure, "training": each.label,
         "steps": each.settings.steps, "falls": bool(each.settings.learning_rate_decay), "value": row[measure]}
        for each in trainings if (row := each.row(name, n_latents)) is not None and row[measure] is not None
    ]  # fmt: skip
    for falls in (False, True):
        points = [(row["steps"], row["value"]) for row in rows if row["falls"] is falls]
        if points:
            steps, errors = zip(*points, strict=True)
            style: dict[str, Any] = {"linewidth": 0.5, "markerfacecolor": "none"} if falls else {"label": name}
            axes.plot(
                steps, errors, **({"linestyle": look.dashes, "color": look.colour, "marker": look.marker} | style)
            )
    return rows


def lines(trainings: list[Training], command: str) -> Iterator[str]:
    """The page."""
    settings = trainings[0].settings
    yield from ("# Length of training", "", "Generated by `benchmarks/large_lengths.py`; do not edit.", "")
    yield (
        "Every page of `make reproduce-large` has one length of training. This page has them side by side: "
        f"{settings.model}, layer {settings.layer}, {settings.sequences_per_step * settings.corpus.block_length:,} "
        f"tokens per step, {settings.held_out_tokens:,} held-out tokens, first seeds. An asterisk marks a flat curve: "
        f"with a constant learning rate, less than {FLAT:.0%} of change over the last quarter of the steps. α rises "
        "over an eighth of the steps, at most 256, unless the column says otherwise. Bold: below "
        "TopK of the same training."
    )
    yield from ("", f"![{CAPTION}](lengths.png)", "", f"{CAPTION} [SVG](lengths.svg), [CSV](lengths.csv)", "")
    for n_latents in sizes_to_compare(trainings):
        yield from (f"## {n_latents:,} latents", "")
        for measure, title in MEASURES.items():
            yield from (f"{title}:", "", *table(trainings, n_latents, measure), "")
    yield from ("## Agreement of composite dictionaries", "", *agreement(trainings), "")
    yield from ("The command:", "", "```", command, "```")


def write(results: Path, command: str) -> Path:
    """Write the page with its figure beside the folders of the records."""
    trainings = read_trainings(results)
    save(draw(trainings, sizes_to_compare(trainings)), results, "lengths")
    page = results / "lengths.md"
    write_atomically(page, ("\n".join(lines(trainings, command)) + "\n").encode())
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results", type=Path, default=ROOT / "docs" / "results", help="folder whose subfolders have the records"
    )
    try:
        print(f"wrote {write(parser.parse_args().results, 'python benchmarks/large_lengths.py')}")
    except (ValueError, OSError) as problem:
        print(f"large_lengths: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
