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

Rows = list[dict[str, str]]
NOT_YET = "not measured yet"
DRAWN = {
    "layers": "Held-out error across layers; 95 % intervals over seeds.",
    "captured": "Share of Σ|λ| in the leading eigenvalues of every latent.",
    "similarity": "Similarity over α; first row and column: random initialization; last column: the other prior.",
    "stability": "Similarity between seeds; grey: similarity to a random initialization.",
    "error_bits": "Error against description length.",
    "random_latents": "The first latents by index that are not dense.",
    "receptive_fields": "Receptive fields of linear and quadratic atoms.",
    "receptive_gap": "Theorem 1 over the width.",
}


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
        f"layer {row['layer']} {row['kind']} {float(row['error']):.3f} "
        f"({float(row['low']):.3f}–{float(row['high']):.3f})"
        for row in sorted(read(results / "layers.csv"), key=lambda row: (int(row["layer"]), row["kind"]))
    ]
    return (
        f"quadratic < composite in {first} of {len(full)} (layer, seed) pairs, composite < atomic in {second} of "
        f"{len(full)}. Errors, 95 % over seeds: {'; '.join(lines)}"
    )


def against_topk(results: Path, sweep: Path) -> str:
    """How often each prior reconstructs better than TopK."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    for row in at_default(cells(sweep)):
        errors.setdefault((row["layer"], row["seed"]), {})[row["kind"]] = float(row["error"])
    pairs = [each for each in errors.values() if "topk" in each]
    if not pairs:
        return NOT_YET
    better = {
        kind: sum(each[kind] < each["topk"] for each in pairs if kind in each)
        for kind in ("atomic", "composite", "quadratic")
    }
    counts = ", ".join(f"{kind} in {count}" for kind, count in better.items())
    return f"better than TopK, of {len(pairs)} (layer, seed) pairs: {counts}"


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
    step = min(distance for distance, _ in pairs)
    near = [row for distance, row in pairs if distance < 1.5 * step]
    random = [
        row for row in rows if row["prior"] == prior and row["row"] == "random" and number(row["column"]) is not None
    ]
    said = [
        f"{label} {spread([float(row[column]) for row in near])} between neighbouring α, "
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
    return NOT_YET


def dense(results: Path, sweep: Path) -> str:
    """Shares of dense and dead latents per kind."""
    rows = at_default(cells(sweep))
    if not rows:
        return NOT_YET
    kinds = sorted({row["kind"] for row in rows} & {"atomic", "composite", "quadratic"})
    return "; ".join(
        f"{kind}: {mean(float(row['dense_share']) for row in rows if row['kind'] == kind):.0%} dense, "
        f"{mean(float(row['dead_share']) for row in rows if row['kind'] == kind):.0%} dead"
        for kind in kinds
    )


def manifolds(results: Path, sweep: Path) -> str:
    path = results / "planted.md"
    return "see the [table of planted manifolds](planted.md)" if path.is_file() else NOT_YET


def known_concepts(results: Path, sweep: Path) -> str:
    """The best composite latent for every concept, over all layers."""
    rows = [
        row
        for row in read(results / "concepts.csv")
        if row["kind"] == "composite" and "-alpha0.3-" in row["autoencoder"]
    ]
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
        best = {
            kind: max(float(row["detected"]) for row in rows if (row["concept"], row["kind"]) == (concept, kind))
            for kind in ("composite", "topk")
            if any(row["kind"] == kind for row in rows)
        }
        found.append(f"{concept} detected {', '.join(f'{value:.2f} ({kind})' for kind, value in best.items())}")
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
        if (results / f"{name}.png").is_file():
            lines += [f"![{caption}]({name}.png)", "", f"{caption} [SVG]({name}.svg), [CSV]({name}.csv)", ""]
    if (results / "concepts.csv").is_file():
        lines += ["All concepts in all dictionaries of the first seed: [CSV](concepts.csv).", ""]
    return "\n".join(lines)


def settings(sweep: Path, seconds: dict[str, float]) -> list[str]:
    rows = cells(sweep)
    if not rows:
        return ["No sweep has been measured yet; `make reproduce` fills this page."]
    row = rows[0]
    tokens = int(row["steps"]) * int(row["sequences_per_step"]) * int(row["block_length"])
    seeds = len({each["seed"] for each in rows})
    minutes = ", ".join(f"{name} {value / 60:.1f}" for name, value in seconds.items())
    return [
        f"{row['model']}, d = {row['d_model']}, k = {row['n_latents']}, {row['steps']} steps ({tokens:,} tokens), "
        f"{seeds} seeds, {int(row['tokens']):,} held-out tokens, {len(rows)} cells. Minutes: {minutes or 'unknown'}; "
        f"{machine()}"
    ]


def machine() -> str:
    """The machine and the versions that results depend on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}."


if __name__ == "__main__":  # write the page from existing results, without running anything
    here = Path(__file__).parents[1] / "docs" / "results"
    here.mkdir(parents=True, exist_ok=True)
    (here / "claims.md").write_text(claims_page(here, Path("runs/reproduce/sweep"), [], {}), encoding="utf-8")
