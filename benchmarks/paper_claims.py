"""Page of the paper's claims next to our measurements, generated from the result files of `make reproduce`.

A claim whose result file is missing is shown as "not measured yet".
"""

import csv
import os
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import torch

from quadric.evaluation.measures import ACTIVE_TOKENS
from quadric.studies.figures.style import Drawn, save

Rows = list[dict[str, str]]
NOT_YET = "not measured yet"
DEFAULT_SWEEP = "sweep-default"
"""Name of the folder, beside the sweep of the paper's method, with the cells of the default."""
DEFAULT = "default"
"""Name of the default dictionary: composite, with an affine lens."""
NEAR = 0.25
"""Two weights of the density penalty that differ by no more than this are neighbours."""
DRAWN = {
    "layers": "Held-out error across layers, both lenses; 95 % intervals over seeds, or over sequences for one seed.",
    "captured": "Share of Σ|λ| in the leading eigenvalues of every latent.",
    "similarity": "Similarity over α; first row and column: random initialization; last column: the other prior.",
    "stability": "Similarity between seeds; grey: similarity to a random initialization.",
    "error_bits": "Error against description length.",
    "random_latents": "The first latents by index that are not dense.",
    "receptive_fields": "Receptive fields of linear and quadratic atoms.",
    "receptive_gap": "Theorem 1 over the width.",
}
OF_NO_MODEL = ("receptive_fields", "receptive_gap")
"""Figures that need no language model: only the page of the embedded one has them."""
WITH_EMBEDDED = "needs no language model, so it is measured with the embedded one only"


class Claim(NamedTuple):
    """One claim: the command that checks it, the paper's statement, and a function that reads our measurement."""

    claim: str
    command: str
    paper: str
    measured: Callable[[Path, Path], str]
    """Called with the results folder and the sweep folder."""


def read(path: Path) -> Rows:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cells(sweep: Path) -> Rows:
    return read(sweep / "results.csv")


def named_cells(sweep: Path) -> list[tuple[str, dict[str, str]]]:
    """Cells at the main alpha of their recipe, each with the name of its dictionary."""
    printed = [(row["kind"], row) for row in at_default(cells(sweep))]
    return printed + [(DEFAULT, row) for row in cells(sweep.with_name(DEFAULT_SWEEP))]


def by_name(sweep: Path, layer: str | None = None) -> dict[str, Rows]:
    """The same cells by dictionary, at one layer or at all of them."""
    found: dict[str, Rows] = {}
    for name, row in named_cells(sweep):
        if layer in (None, row["layer"]):
            found.setdefault(name, []).append(row)
    return found


def main_layer(sweep: Path) -> str | None:
    """The layer with most cells."""
    layers = [row["layer"] for row in cells(sweep)]
    return max(dict.fromkeys(layers), key=layers.count, default=None)


def average(rows: Rows, column: str) -> float | None:
    """Mean of a column over the rows that have it."""
    values = [float(row[column]) for row in rows if row.get(column)]
    return mean(values) if values else None


def at_default(rows: Rows) -> Rows:
    return [row for row in rows if row["alpha"] in ("", "0.3")]


def ordering(results: Path, sweep: Path) -> str:
    """How often quadratic < composite < atomic, over layers and seeds."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for row in at_default(cells(sweep)):
        errors.setdefault((row["layer"], row["seed"]), {})[row["kind"]] = float(row["error"])
    full = [each for each in errors.values() if {"quadratic", "composite", "atomic"} <= each.keys()]
    if not full:
        return NOT_YET
    first = sum(each["quadratic"] < each["composite"] for each in full)
    second = sum(each["composite"] < each["atomic"] for each in full)
    lines = [
        f"layer {row['layer']} {DEFAULT if row['lens'] == 'affine' else row['kind']} {float(row['error']):.3f} "
        f"({float(row['low']):.3f}–{float(row['high']):.3f})"
        for row in sorted(read(results / "layers.csv"), key=lambda row: (int(row["layer"]), row["kind"]))
    ]
    return (
        f"quadratic < composite in {first} of {len(full)} (layer, seed) pairs, composite < atomic in {second} of "
        f"{len(full)}. Errors, 95 % over seeds or, of one seed, over sequences: {'; '.join(lines)}"
    )


def against_topk(results: Path, sweep: Path) -> str:
    """How often each dictionary reconstructs better than TopK."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for name, row in named_cells(sweep):
        errors.setdefault((row["layer"], row["seed"]), {})[name] = float(row["error"])
    pairs = [each for each in errors.values() if "topk" in each]
    if not pairs:
        return NOT_YET
    better = {
        name: sum(each[name] < each["topk"] for each in pairs if name in each)
        for name in ("atomic", "composite", "quadratic", DEFAULT)
    }
    counts = ", ".join(f"{name} in {count}" for name, count in better.items())
    return f"better than TopK, of {len(pairs)} (layer, seed) pairs: {counts}"


def blocks(results: Path, sweep: Path) -> str:
    """Errors by block at the main layer, and the share of the energy in each block."""
    layer = main_layer(sweep)
    found = by_name(sweep, layer)
    first = next(iter(found.values()), [])
    if average(first, "error_quadratic") is None:
        return NOT_YET
    energy = ", ".join(f"{name} {average(first, f'energy_{name}'):.0%}" for name in ("constant", "linear", "quadratic"))
    errors = "; ".join(
        f"{name} " + " / ".join(f"{average(rows, f'error_{b}'):.3f}" for b in ("constant", "linear", "quadratic"))
        for name, rows in found.items()
    )
    return f"layer {layer}, energy: {energy}. Errors, constant / linear / quadratic: {errors}"


def floors(results: Path, sweep: Path) -> str:
    """The floor of every layer, and how far above it the best of the paper's priors ends."""
    rows = [row for row in at_default(cells(sweep)) if row["kind"] in ("atomic", "composite", "quadratic")]
    said = []
    for layer in sorted({row["layer"] for row in rows if row.get("floor")}, key=int):
        mine = [row for row in rows if row["layer"] == layer]
        best = min(mine, key=lambda row: float(row["error"]))
        said.append(
            f"layer {layer}: floor {average(mine, 'floor'):.3f}, best prior {float(best['error']):.3f} ({best['kind']})"
        )
    return "; ".join(said) or NOT_YET


def redundant(results: Path, sweep: Path) -> str:
    """Distinct, empty and copied latents per dictionary."""
    return (
        "; ".join(
            f"{name}: {average(rows, 'n_distinct'):.0f} distinct of {rows[0]['n_latents']}, "
            f"{average(rows, 'n_empty'):.0f} empty, {average(rows, 'n_copies'):.0f} copies"
            for name, rows in by_name(sweep).items()
            if average(rows, "n_distinct") is not None
        )
        or NOT_YET
    )


def active(results: Path, sweep: Path) -> str:
    """Latents per token that come within 10 % of the error of all, and the error of the 32 largest |z|."""
    said = [
        f"{name}: {median(float(row['active_per_token']) for row in rows):.0f} per token come within 10 % of the "
        f"error of all; the 32 largest \\|z\\| have {average(rows, 'error_of_32_active'):.3f}"
        for name, rows in by_name(sweep, main_layer(sweep)).items()
        if average(rows, "active_per_token") is not None
    ]
    return f"On the first {ACTIVE_TOKENS:,} held-out tokens: {'; '.join(said)}" if said else NOT_YET


def low_rank(results: Path, sweep: Path) -> str:
    """Median captured at ranks 1, 3 and 5."""
    rows = [row for row in read(results / "captured.csv") if row["panel"] == "median"]
    if not rows:
        return NOT_YET
    values = {(row["prior"], int(row["x"])): float(row["value"]) for row in rows}
    return "; ".join(
        f"{prior}: median latent captured "
        + ", ".join(f"{values[prior, rank]:.0%} by {rank}" for rank in (1, 3, 5) if (prior, rank) in values)
        for prior in ("composite", "quadratic")
    )


def over_alpha(results: Path, sweep: Path) -> str:
    """Similarities between neighbouring alphas, and over all pairs."""
    rows = read(results / "similarity.csv")
    if not rows:
        return NOT_YET
    return "; ".join(_alphas(prior, rows) for prior in dict.fromkeys(row["prior"] for row in rows))


def _alphas(prior: str, rows: Rows) -> str:
    def number(label: str) -> float | None:
        try:
            return float(label)
        except ValueError:
            return None

    pairs = [
        (abs(a - b), row)
        for row in rows
        if row["prior"] == prior and (a := number(row["row"])) is not None and (b := number(row["column"])) is not None
        if a != b
    ]
    # The paper's neighbours are 0.1 apart; ours at least have a similar density.
    widest = max(NEAR, min(distance for distance, _ in pairs))
    near = [row for distance, row in pairs if distance <= widest]
    random = [
        row for row in rows if row["prior"] == prior and row["row"] == "random" and number(row["column"]) is not None
    ]
    said = [
        f"{label} {spread([float(row[column]) for row in near])} for α at most {widest:g} apart, "
        f"{spread([float(row[column]) for _, row in pairs])} over all, "
        f"{spread([float(row[column]) for row in random])} with a random initialization"
        for label, column in (("Sim_F", "frobenius"), ("Sim_H", "hungarian_symmetric"), ("alignment", "alignment"))
    ]
    return f"{prior}: {'; '.join(said)}"


def spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def over_seeds(results: Path, sweep: Path) -> str:
    """Similarities between seeds, and to a random initialization."""
    rows = read(results / "stability.csv")
    if not rows:
        return NOT_YET
    found = []
    for prior in dict.fromkeys(row["prior"] for row in rows):
        mine = [row for row in rows if row["prior"] == prior]
        between, chance = ([row for row in mine if (row["other"] == "random") is null] for null in (False, True))
        said = ", ".join(
            f"{label} {spread([float(row[column]) for row in between])} "
            f"(random {mean(float(row[column]) for row in chance):.2f})"
            for label, column in (("Sim_F", "frobenius"), ("Sim_H", "hungarian_symmetric"), ("alignment", "alignment"))
        )
        found.append(f"{prior}: {said}")
    return "; ".join(found)


def across_priors(results: Path, sweep: Path) -> str:
    """Similarities between priors at alpha 0.3."""
    rows = [
        row
        for row in read(results / "similarity.csv")
        if row["row"] == "0.3" and row["column"] in ("atomic", "composite", "quadratic")
    ]
    if not rows:
        return NOT_YET
    return "; ".join(
        f"{row['prior']} with {row['column']}: Sim_F {float(row['frobenius']):.2f}, Sim_H "
        f"{float(row['hungarian_symmetric']):.2f}, alignment {float(row['alignment']):.2f}"
        for row in rows
    )


def theorem(results: Path, sweep: Path) -> str:
    """The ratio at the paper's example, τ = ½ and d = 1024."""
    for row in read(results / "receptive_gap.csv"):
        if (row["threshold"], row["d_model"]) == ("0.5", "1024"):
            return (
                f"10^{float(row['log10_ratio']):.1f} exactly; the printed law gives "
                f"10^{float(row['log10_printed_law']):.1f}, and 2√τ(1+τ)^(−(d−1)/2) gives "
                f"10^{float(row['log10_exact_law']):.1f}"
            )
    return WITH_EMBEDDED if cells(sweep) else NOT_YET


def dense(results: Path, sweep: Path) -> str:
    """Shares of dense and dead latents per dictionary."""
    return (
        "; ".join(
            f"{name}: {average(rows, 'dense_share'):.0%} dense, {average(rows, 'dead_share'):.0%} dead"
            for name, rows in by_name(sweep).items()
            if name != "topk"
        )
        or NOT_YET
    )


def manifolds(results: Path, sweep: Path) -> str:
    if (results / "planted.md").is_file():
        return "see the [table of planted manifolds](planted.md)"
    return WITH_EMBEDDED if cells(sweep) else NOT_YET


def is_default(row: dict[str, str]) -> bool:
    """Whether a row of concepts is of the default; names say what differs from it, and those of 0.2 its lens."""
    name = row["autoencoder"]
    return "-affine-" in name or (row["kind"] == "composite" and "-lens-paper-" not in name and "-alpha" not in name)


def known_concepts(results: Path, sweep: Path) -> str:
    """The best composite latent for every concept, over all layers."""
    rows = [row for row in read(results / "concepts.csv") if row["kind"] == "composite" and not is_default(row)]
    if not rows:
        return NOT_YET
    best: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["concept"] not in best or float(row["captured"]) > float(best[row["concept"]]["captured"]):
            best[row["concept"]] = row
    captured = "; ".join(
        f"{concept}: {float(row['captured']):.0%} in latent {row['latent']} of {row['hook_point']} "
        f"(rank {row['rank']}, best random subspace {float(row['random_subspace']):.0%}, "
        f"untrained {float(row['untrained']):.0%})"
        for concept, row in best.items()
    )
    return "; ".join([captured, *detections(read(results / "concepts.csv"))])


def detections(rows: Rows) -> list[str]:
    """Average precision of the best latent for every concept, over all layers, and TopK's; nothing in older files."""
    found = []
    for concept in dict.fromkeys(row["concept"] for row in rows if row.get("detected")):
        best: dict[str, float] = {}
        for row in rows:
            name = DEFAULT if is_default(row) else row["kind"]
            if row["concept"] == concept and name in ("composite", DEFAULT, "topk"):
                best[name] = max(best.get(name, 0.0), float(row["detected"]))
        found.append(f"{concept} detected {', '.join(f'{value:.2f} ({name})' for name, value in best.items())}")
    return found


def bits(results: Path, sweep: Path) -> str:
    """Median error and bits per prior."""
    rows = [row for row in read(results / "error_bits.csv") if row["alpha"] == "0.3"]
    if not rows:
        return NOT_YET
    return "; ".join(
        f"{kind}: error {median(float(row['error']) for row in rows if row['kind'] == kind):.3f} at "
        f"{median(float(row['bits']) for row in rows if row['kind'] == kind) / 8e6:.1f} MB"
        for kind in dict.fromkeys(row["kind"] for row in rows)
    )


CLAIMS = (
    Claim(
        "Composite latents improve reconstruction",
        "`quadric sweep`, `quadric figures --only layers`",
        "quadratic < composite < atomic at every even layer of Qwen 3.5 0.8B",
        ordering,
    ),
    Claim(
        "Bilinear autoencoders reconstruct better than TopK (K = 32), compared in the product space",
        "`quadric sweep`, `quadric figures --only layers`",
        "better across most layers and variants",
        against_topk,
    ),
    Claim(
        "Multi-dimensional geometry is prevalent",
        "`quadric figures --only captured`",
        "most composite latents are well captured by 5 dimensions; most quadratic ones are full-rank",
        low_rank,
    ),
    Claim(
        "Subspaces are stable over α, latents are not",
        "`quadric figures --only similarity`",
        "Sim_F above 90 % for similar sparsity; individual latents agree only 15–50 %",
        over_alpha,
    ),
    Claim(
        "The same between seeds (not in the paper)",
        "`quadric figures --only stability`",
        "–",
        over_seeds,
    ),
    Claim(
        "Different priors recover the same subspace",
        "`quadric figures --only similarity`",
        "individual latents agree even less, global similarity remains high",
        across_priors,
    ),
    Claim(
        "Theorem 1 at τ = ½, d = 1024",
        "`quadric figures --only receptive_gap`",
        "ratio ≈ 10⁻⁵⁶",
        theorem,
    ),
    Claim("Dense latents", "`quadric sweep`", "about 10 % (composite, layer 18, 64 M tokens)", dense),
    Claim("Error by block about the mean token (not in the paper)", "`quadric sweep`", "–", blocks),
    Claim("Error beside the floor, PCA of xxᵀ with k components (not in the paper)", "`quadric sweep`", "–", floors),
    Claim("Distinct latents (not in the paper)", "`quadric sweep`", "–", redundant),
    Claim("Active latents per token (not in the paper)", "`quadric sweep`", "K = 32 for TopK", active),
    Claim(
        "Bilinear autoencoders find planted manifolds (not in the paper)",
        "`python benchmarks/bench_planted.py`",
        "a circle needs a rank-2 composite, a sphere a rank-3 one",
        manifolds,
    ),
    Claim(
        "Bilinear autoencoders find known concepts (not in the paper)",
        "`quadric concepts`",
        "years, U.S. places and others, by hand-picked examples",
        known_concepts,
    ),
    Claim(
        "Cost of a simpler prior: error against bits (not in the paper)",
        "`quadric figures --only error_bits`",
        "names description length as the natural measure, but does not measure it",
        bits,
    ),
)


def claims_page(results: Path, sweep: Path, commands: list[str], seconds: dict[str, float]) -> str:
    """The page as Markdown: settings, table of claims, figures."""
    lines = ["# Measured here", "", "Generated by `make reproduce`; do not edit.", "", *settings(sweep, seconds), ""]
    lines += ["| claim | command | paper | measured here |", "|---|---|---|---|"]
    for each in CLAIMS:
        measured = each.measured(results, sweep).replace("|", "\\|")
        lines.append(f"| {each.claim} | {each.command} | {each.paper} | {measured} |")
    lines += ["", *(["The sweeps:", "", "```", *commands, "```", ""] if commands else [])]
    for name, caption in DRAWN.items():
        lines += figure_lines(results, name, caption)
    if (results / "concepts.csv").is_file():
        lines += ["All concepts in all dictionaries of the first seed: [CSV](concepts.csv).", ""]
    return "\n".join(lines)


def save_as_svg(drawn: Drawn, results: Path, name: str) -> None:
    """Write NAME.svg and NAME.csv, without the PNG: a page shows one picture."""
    for path in save(drawn, results, name):
        if path.suffix == ".png":
            path.unlink()


def figure_lines(results: Path, name: str, caption: str) -> list[str]:
    """A figure with its caption, and a link to its numbers where they are kept; nothing without the figure."""
    if not (results / f"{name}.svg").is_file():
        return []
    numbers = f" [CSV]({name}.csv)" if (results / f"{name}.csv").is_file() else ""
    return [f"![{caption}]({name}.svg)", "", f"{caption}{numbers}", ""]


def settings(sweep: Path, seconds: dict[str, float]) -> list[str]:
    rows = cells(sweep)
    if not rows:
        return ["No sweep has been measured yet; `make reproduce` fills this page."]
    row = rows[0]
    tokens = int(row["steps"]) * int(row["sequences_per_step"]) * int(row["block_length"])
    seeds = {
        layer: len({each["seed"] for each in rows if each["layer"] == layer}) for layer in {r["layer"] for r in rows}
    }
    counts = ", ".join(f"{n} at layer {layer}" for layer, n in sorted(seeds.items(), key=lambda item: int(item[0])))
    default = len(cells(sweep.with_name(DEFAULT_SWEEP)))
    minutes = ", ".join(f"{name} {value / 60:.1f}" for name, value in seconds.items())
    return [
        f"{row['model']}, d = {row['d_model']}, k = {row['n_latents']}, {row['steps']} steps ({tokens:,} tokens), "
        f"seeds: {counts}; {int(row['tokens']):,} held-out tokens, {len(rows) + default} cells. Minutes: "
        f"{minutes or 'unknown'}; {machine()}"
    ]


def machine() -> str:
    """The machine and the versions that results depend on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}."


if __name__ == "__main__":  # write the page from existing results, without running anything
    here = Path(__file__).parents[1] / "docs" / "results"
    here.mkdir(parents=True, exist_ok=True)
    (here / "claims.md").write_text(claims_page(here, Path("runs/reproduce/sweep"), [], {}), encoding="utf-8")
