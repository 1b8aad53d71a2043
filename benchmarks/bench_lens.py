"""Which lens and which settings give shapes that can be believed, on real activations.

Every dictionary is trained on the same stored tokens and measured on held-out ones: error by block, floor, dense, empty
and copied latents, detection and capture of concepts, shapes. Rows are kept in benchmarks/results/lens-MODEL.json as
they are made, so that an interrupted run continues; the table beside it is made from all of them.

    python benchmarks/bench_lens.py
    python benchmarks/bench_lens.py --model gemma-3-270m.gguf --name gemma3-270m --layer 9 --storage float32
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import RESULTS, environment

import quadric
from quadric._io.files import write_atomically
from quadric.cli import main as command
from quadric.data.sources import as_activations
from quadric.evidence.concepts.finding import Named, find_concepts
from quadric.evidence.ranking import worth
from quadric.geometry.neighbours import redundancy
from quadric.model import (
    Atomic,
    Composite,
    Density,
    Dictionary,
    Error,
    Mean,
    Overlap,
    Quadratic,
    TopK,
    paper_loss,
)
from quadric.run.recipes import changed_loss

WORK = Path(tempfile.gettempdir()) / "quadric-benchmarks"
STEPS, BATCH, N_LATENTS = 300, 2048, 512
AFFINE, PAPER = Composite(n_latents=N_LATENTS), Composite(n_latents=N_LATENTS, lens="paper")
TIED = Composite(n_latents=N_LATENTS, same_factors=True)
STRONGEST = AFFINE.default_loss()
ALL = (Error(), Density(0.3), Overlap(0.01))
DICTIONARIES: dict[str, dict[str, Any]] = {
    "paper, 6 atoms (the demo before)": {"kind": replace(PAPER, atoms_per_latent=6.0)},
    "affine, 32 strongest (default)": {"kind": AFFINE},
    "affine, 32 strongest, mean penalty": {"kind": AFFINE, "loss": (Mean(), *STRONGEST)},
    "TopK, K = 32": {"kind": TopK(n_latents=N_LATENTS)},
    "affine, all latents": {"kind": AFFINE, "loss": ALL},
    "affine, all latents, no penalty": {"kind": AFFINE, "loss": paper_loss()},
    "affine, all latents, tied": {"kind": TIED, "loss": ALL},
    "affine, 32 strongest, tied": {"kind": TIED},
    "affine, 16 strongest": {"kind": AFFINE, "loss": changed_loss(STRONGEST, {"error.top": 16})},
    "affine, 64 strongest": {"kind": AFFINE, "loss": changed_loss(STRONGEST, {"error.top": 64})},
    "affine, 32 strongest, alpha 0.3": {"kind": AFFINE, "loss": changed_loss(STRONGEST, {"density": 0.3})},
    "affine, 32 strongest, 600 steps": {"kind": AFFINE, "steps": 600},
    "paper, 32 strongest": {"kind": PAPER, "loss": (Error(top=32), Density(0.05))},
    "paper": {"kind": PAPER},
    "paper, overlap penalty": {"kind": PAPER, "loss": ALL},
    "paper, atomic": {"kind": Atomic(n_latents=N_LATENTS, lens="paper")},
    "paper, quadratic": {"kind": Quadratic(n_latents=N_LATENTS, lens="paper")},
    "affine, atomic": {"kind": Atomic(n_latents=N_LATENTS)},
    "affine, quadratic": {"kind": Quadratic(n_latents=N_LATENTS)},
}
"""Arguments of `quadric.fit`."""
NUMBERS = (
    "error", "floor", "error_constant", "error_linear", "error_quadratic", "density", "dense_share", "n_empty",
    "n_copies", "n_distinct",
)  # fmt: skip
Row = dict[str, Any]


def harvested(options: argparse.Namespace, split: str, tokens: int) -> str:
    """Folder with the activations of one split."""
    folder = WORK / f"{options.name}-{options.layer}-{split}"
    arguments = ["harvest", "--model", options.model, "--layer", str(options.layer), "--tokens", str(tokens)]
    arguments += ["--split", split, "--dtype", options.storage, "--out", str(folder)]
    if command(arguments) != 0:
        raise SystemExit("harvesting the activations failed; see the error above")
    return str(folder)


def measured(autoencoder: Dictionary, held_out: str, model: str) -> Row:
    """All numbers of one dictionary."""
    report = quadric.evaluate(autoencoder, held_out, progress=False)
    findings = find_concepts([Named("", autoencoder)], model=model)
    return {
        **{name: getattr(report, name) for name in NUMBERS},
        "energy": report.measures.blocks.energy if report.measures.blocks else None,
        "by_active": report.measures.by_active,
        "detection": {each.concept: each.detection.precision for each in findings if each.detection},
        "capture": {each.concept: each.best.captured for each in findings},
        **(shapes(autoencoder, held_out) if isinstance(autoencoder, quadric.BilinearAutoencoder) else {}),
    }


def shapes(autoencoder: quadric.BilinearAutoencoder, held_out: str) -> Row:
    """How often each shape occurs: among all latents, and among the first 20 of the viewer's order."""
    batch = next(iter(as_activations(held_out).stream(batch_tokens=24_000, seed=None)))
    (rows,) = batch.activations.values()  # without their text, which would need the language model
    evidence = quadric.collect_evidence(autoencoder, rows, points=200, progress=False)
    table = quadric.latents(autoencoder, evidence)
    order = worth(evidence, redundancy(autoencoder)).argsort()[::-1][:20]
    return {
        "shapes": dict(Counter(table["shape"])),
        "first_shapes": dict(Counter(table["shape"][int(i)] for i in order)),
    }


def make_rows(options: argparse.Namespace, path: Path) -> list[Row]:
    """Train and measure what is missing in the file."""
    rows: list[Row] = json.loads(path.read_text()) if path.exists() else []
    train = harvested(options, "train", options.tokens)
    held_out = harvested(options, "held_out", 24_000)
    known = {(row["dictionary"], row["seed"]) for row in rows}
    for seed in range(options.seeds):
        for name, settings in DICTIONARIES.items():
            if (name, seed) in known or (options.only and name not in options.only):
                continue
            began = time.perf_counter()
            given = {"steps": STEPS, "batch_tokens": BATCH, **settings}
            autoencoder = quadric.fit(train, seed=seed, **given)
            seconds = time.perf_counter() - began
            own = measured(autoencoder, held_out, options.model)
            rows.append({"dictionary": name, "seed": seed, "seconds": seconds, **own})
            write_atomically(path, (json.dumps(rows, indent=1) + "\n").encode())
            print(f"{name}, seed {seed}: error {own['error']:.3f}, quadratic {own['error_quadratic']:.3f}", flush=True)
    return rows


def spread(rows: list[Row], value: Callable[[Row], float | None], digits: int = 2) -> str:
    """Mean over seeds, and the largest distance from it."""
    found = [each for each in map(value, rows) if each is not None]
    if not found:
        return "–"
    mean = statistics.fmean(found)
    return f"{mean:.{digits}f} ± {max(abs(each - mean) for each in found):.{digits}f}"


def by_dictionary(rows: list[Row]) -> dict[str, list[Row]]:
    return {name: own for name in DICTIONARIES if (own := [row for row in rows if row["dictionary"] == name])}


def table(rows: list[Row], columns: dict[str, Callable[[Row], float | None]], digits: int = 2) -> list[str]:
    """One line per dictionary, mean and spread over its seeds."""
    lines = ["| dictionary | seeds | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for name, own in by_dictionary(rows).items():
        cells = " | ".join(spread(own, column, digits) for column in columns.values())
        lines.append(f"| {name} | {len(own)} | {cells} |")
    return lines


def field(name: str) -> Callable[[Row], float | None]:
    return lambda row: row[name]


def part(name: str, key: str) -> Callable[[Row], float | None]:
    return lambda row: row[name].get(key)


def counted(parts: Iterable[dict[str, int]]) -> str:
    """Counts added up, most frequent first."""
    total = sum(map(Counter, parts), Counter())
    return ", ".join(f"{n} {name}" for name, n in total.most_common())


def page(rows: list[Row], options: argparse.Namespace) -> str:
    """The committed tables."""
    concepts = list(rows[0]["detection"])
    energy = ", ".join(f"{share:.1%}" for share in rows[0]["energy"])
    errors = {"error": "error", "floor": "floor", "constant": "error_constant", "linear": "error_linear"}
    errors |= {"quadratic": "error_quadratic"}
    counts = {"dense share": "dense_share", "density": "density", "empty": "n_empty", "copies": "n_copies"}
    lines = [
        f"# Lenses and settings on {options.name}, layer {options.layer}",
        "",
        f"`python benchmarks/bench_lens.py{options.arguments}`: k = {N_LATENTS}, {STEPS} steps of {BATCH:,} of "
        f"{options.tokens:,} tokens, 16 atoms per latent. Where all latents are trained, alpha is 0.3; where the 32 "
        "strongest of each token are, it is 0.05, unless stated. Measured on 24,000 held-out tokens with all latents "
        "kept. Mean ± largest distance from it over seeds.",
        "",
        f"Of the energy of xxᵀ about the mean token, the constant, linear and quadratic blocks hold {energy}.",
        "",
        *table(rows, {title: field(name) for title, name in errors.items()}, 3),
        "",
        *table(rows, {title: field(name) for title, name in counts.items()}),
        "",
        "Detection: average precision of the best single latent, chosen on one half of the tokens, on the other half.",
        "",
        *table(rows, {name: part("detection", name) for name in concepts}),
        "",
        "Capture: share of the variance between a concept's words inside one latent's eigenspace; TopK: one direction.",
        "",
        *table(rows, {name: part("capture", name) for name in concepts}),
        "",
        "Shapes, summed over seeds: of all latents, and of the first 20 of each in the viewer's order.",
        "",
        "| dictionary | seeds | all | first 20 |",
        "|---|---|---|---|",
    ]
    for name, own in by_dictionary([row for row in rows if "first_shapes" in row]).items():
        cells = " | ".join(counted(row[part] for row in own) for part in ("shapes", "first_shapes"))
        lines.append(f"| {name} | {len(own)} | {cells} |")
    return "\n".join([*lines, "", environment(), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="hub id, folder or .gguf file")
    parser.add_argument("--name", default="smollm2", help="name of the model in the files")
    parser.add_argument("--layer", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=110_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--storage", default="float16", help="data type of stored activations")
    parser.add_argument("--only", nargs="*", help="dictionaries to train; all by default")
    options = parser.parse_args()
    given = {
        "model": Path(options.model).name,
        "name": options.name,
        "layer": options.layer,
        "storage": options.storage,
    }
    changed = {name: value for name, value in given.items() if value != parser.get_default(name)}
    options.arguments = "".join(f" --{name} {value}" for name, value in changed.items())
    rows = make_rows(options, RESULTS / f"lens-{options.name}.json")
    write_atomically(RESULTS / f"lens-{options.name}.md", page(rows, options).encode())


if __name__ == "__main__":
    main()
