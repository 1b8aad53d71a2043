"""The paper's example geometries, counted: how many latents show a cone, clusters, an interpolation or a subset.

The same tests run on the demo's dictionary and on controls that should have nothing to show: its points with the token
labels permuted; points drawn by its own forms from Gaussian tokens and from tokens with heavier tails; the same forms
turned by a random rotation; an untrained dictionary; and, for what a linear dictionary shows, TopK. Rows are kept in
benchmarks/results/patterns.json as they are made, so that an interrupted run continues. Writes
benchmarks/results/patterns.md and patterns.csv. Runs `quadric demo` first, unless the folder holds a finished one.

    python benchmarks/bench_patterns.py [runs/demo]
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bench_clusters import structureless, with_points_of
from measure import RESULTS, write_table

import quadric
from quadric._io.files import write_atomically
from quadric.evidence import Evidence, collect_in_memory, open_cached, text_behind
from quadric.evidence.patterns.cones import HEAVY_TAILS
from quadric.evidence.patterns.finding import find_patterns
from quadric.evidence.patterns.record import PATTERNS, DictionaryPatterns, patterns_csv
from quadric.geometry import DictionaryGeometry, dictionary_geometry, with_signs
from quadric.model import Autoencoder
from quadric.run.demonstration import default_demonstration, demonstrate
from quadric.run.folder import autoencoder_folders, evidence_folder, load
from quadric.run.sites import SITE
from quadric.viewer.writer import is_site

EXAMPLES = 4
Row = dict[str, Any]


class Shown(NamedTuple):
    """A dictionary with what is known about it."""

    autoencoder: Autoencoder
    evidence: Evidence
    geometry: DictionaryGeometry


def signed_geometry(autoencoder: Autoencoder, evidence: Evidence) -> DictionaryGeometry:
    signs = torch.from_numpy(np.array(evidence.calibration.signs))
    return with_signs(dictionary_geometry(autoencoder, moments=evidence.calibration.tokens_centre()), signs)


def observed(autoencoder: Autoencoder, own: Shown, cache: Path) -> Shown:
    """Another dictionary on the tokens of the demo's evidence."""
    stream = open_cached(own.autoencoder.provenance, cache, 4096)
    evidence = collect_in_memory(
        autoencoder, stream, text_behind(stream), n_tokens=own.evidence.n_tokens, settings=own.evidence.settings
    )
    return Shown(autoencoder, evidence, signed_geometry(autoencoder, evidence))


def relabelled(own: Shown) -> Shown:
    """Every latent keeps its points; which token, document and context each belongs to is permuted."""
    places = np.random.default_rng(7).permuted(np.array(own.evidence.points.places), axis=1)
    return own._replace(evidence=replace(own.evidence, points=replace(own.evidence.points, places=places)))


def from_other_tokens(degrees: int | None, own: Shown) -> Shown:
    """Points that the same forms draw from tokens without structure."""
    evidence, latents = own.evidence, list(range(own.evidence.n_latents))
    generator = np.random.default_rng(98)
    tokens = structureless(degrees, evidence.n_tokens, evidence.settings.n_axes, generator)
    return own._replace(evidence=with_points_of(tokens, evidence, own.geometry, latents))


def rotated(autoencoder: Autoencoder) -> Autoencoder:
    """The same spectra, mixed as before, in random directions: L and R turned by one rotation of the tokens."""
    other, d = copy.deepcopy(autoencoder), autoencoder.d_model
    rotation = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(3)))[0]
    with torch.no_grad():
        for factors in (other.left, other.right):
            factors[:, :d] = factors[:, :d] @ rotation
    return other


def untrained(autoencoder: Autoencoder) -> Autoencoder:
    """Initial weights of the same sizes, behind the same lens."""
    known = autoencoder.architecture
    return quadric.BilinearAutoencoder(
        d_model=known.d_model, n_latents=known.n_latents, n_hidden=known.n_hidden, prior=known.prior,
        mixing_density=known.mixing_density, seed=1, lens=autoencoder.lens, provenance=autoencoder.provenance,
    )  # fmt: skip


def every_nth(autoencoder: Autoencoder, step: int) -> Autoencoder:
    """A composite dictionary of every nth latent, for a quick look."""
    known, tensors = autoencoder.architecture, dict(autoencoder.tensors())
    kept = tensors["mixing_rows"] % step == 0
    n_latents = len(range(0, known.n_latents, step))
    tensors |= {name: tensors[name][kept] for name in ("mixing_rows", "mixing_columns", "mixing_values")}
    tensors |= {"mixing_rows": tensors["mixing_rows"] // step, "offset": tensors["offset"][::step]}
    density = int(kept.sum()) / (n_latents * known.n_hidden)
    part = quadric.BilinearAutoencoder.from_tensors(
        replace(known, n_latents=n_latents, mixing_density=density),
        {name: each.detach() for name, each in tensors.items()},
    )
    part.provenance = autoencoder.provenance
    return part


def linear(own: Shown, cache: Path) -> Autoencoder:
    return quadric.fit(str(cache), own.autoencoder.n_latents, prior="topk", steps=300, progress=False)


def dictionaries(own: Shown, cache: Path, step: int) -> dict[str, tuple[Callable[[], Shown], tuple[str, ...]]]:
    """How to make each row, and which patterns it says something about."""
    geometric, everything = ("cone", "cluster"), PATTERNS

    def control(other: Autoencoder) -> Shown:
        return observed(every_nth(other, step) if step > 1 else other, own, cache)

    return {
        "the demo's own": (lambda: own, everything),
        "token labels permuted": (lambda: relabelled(own), ("interpolation", "subset")),
        "Gaussian tokens": (lambda: from_other_tokens(None, own), geometric),
        f"t tokens, {HEAVY_TAILS} degrees of freedom": (lambda: from_other_tokens(HEAVY_TAILS, own), geometric),
        "same spectra, random directions": (lambda: control(rotated(own.autoencoder)), everything),
        "untrained": (lambda: control(untrained(own.autoencoder)), everything),
        "TopK, trained": (lambda: observed(linear(own, cache), own, cache), ("cone", "cluster", "interpolation")),
    }


def row_of(found: DictionaryPatterns, shown: Shown, patterns: tuple[str, ...], seconds: float) -> Row:
    curvature = np.asarray(shown.evidence.statistics.curvature)
    count, tested = found.counts(), found.n_tested()
    low = {name: sum(each[name].p_value <= found.rate for each in found.tests.values()) for name in PATTERNS}
    curved = {
        name: float(
            np.median([curvature[latent] for latent, each in found.tests.items() if each[name].shown] or [np.nan])
        )
        for name in PATTERNS
    }
    return {
        "latents": len(found.tests), "seconds": seconds, "heavy_tailed_cones": found.n_heavy_tailed_cones,
        **{name: {"shown": count[name], "tested": tested[name], "low": low[name], "curvature": curved[name]}
           for name in patterns},
    }  # fmt: skip


def examples(found: DictionaryPatterns, evidence: Evidence) -> list[str]:
    """The best examples of every pattern, with the link that opens them in the viewer."""
    lines = []
    for name in PATTERNS:
        for latent in found.best(name, EXAMPLES):
            test = found.tests[latent][name]
            p = f", p = {test.corrected:.4f}" if test.corrected == test.corrected else ""
            tokens = " ; ".join(test.tokens).replace("|", "¦")
            label = evidence.labels.of(latent).replace("|", "¦")
            lines.append(f"- {name}, `#/latent/{latent}` ({label}): {test.statistic:.2f}{p}: {tokens}")
    return lines


def cells(row: Row) -> list[str]:
    given = [row.get(name) for name in PATTERNS]
    return ["–" if each is None else f"{each['shown']} of {each['tested']}" for each in given]


def notes(rows: dict[str, Row], own: Shown, lines: list[str], step: int) -> str:
    first = rows["the demo's own"]
    between = {name: row["interpolation"] for name, row in rows.items() if "interpolation" in row}
    low = "; ".join(f"{name}: {each['low']} of {each['tested']}" for name, each in between.items())
    curved = ", ".join(f"{name} {first[name]['curvature']:.2f}" for name in PATTERNS if first[name]["shown"])
    everyone = float(np.median(own.evidence.statistics.curvature))
    return (
        f"`python benchmarks/bench_patterns.py{f' --every {step}' if step > 1 else ''}`: latents of `quadric demo` "
        f"({own.evidence.n_tokens:,} tokens, "
        f"{own.evidence.settings.n_points:,} points per latent) that show each pattern, of those that could be tested; "
        "false discovery rate 5 %, so that a twentieth of each count is expected to be false if the controls behind "
        "the p-values were right. All rows but the demo's own and TopK have nothing to find, or nothing that was "
        "learned; – where a control says nothing about a pattern.\n\nInterpolations with p ≤ 0.05 before correction "
        f"(a twentieth by chance): {low}."
        f"\n\nMedian measured curvature of the demo's latents that show each: {curved}; of all latents {everyone:.2f}."
        "\n\nBest examples:\n\n" + "\n".join(lines)
    )


def main(options: argparse.Namespace) -> None:
    run, path = options.run, options.out / "patterns.json"
    if not is_site(run / SITE):
        demonstrate(run, default_demonstration(run), lambda *_: None)
    (name,) = autoencoder_folders(run)
    autoencoder, evidence = load(run), Evidence.load(evidence_folder(run, name))
    own = Shown(autoencoder, evidence, signed_geometry(autoencoder, evidence))
    rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    if rows.pop("every", 1) != options.every:
        rows = {}
    lines: list[str] = rows.pop("examples", [])  # type: ignore[assignment]
    wanted = dictionaries(own, run / "activations", options.every)
    for label, (make, patterns) in wanted.items():
        if label in rows or (options.only and label not in options.only):
            continue
        shown = make()
        began = time.process_time()
        is_whole = shown.evidence.n_latents == autoencoder.n_latents
        latents = range(0, autoencoder.n_latents, options.every) if options.every > 1 and is_whole else None
        found = find_patterns(shown.evidence, shown.geometry, latents=latents)
        rows[label] = row_of(found, shown, patterns, time.process_time() - began)
        if shown is own:
            lines = examples(found, evidence)
            write_atomically(options.out / "patterns.csv", patterns_csv(found, evidence).encode())
        kept = {**rows, "every": options.every, "examples": lines}
        write_atomically(path, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
        print(label, {name: rows[label].get(name) for name in PATTERNS}, flush=True)
    rows = {label: rows[label] for label in wanted if label in rows}
    table = [[label, f"{row['latents']}", *cells(row), f"{row['seconds']:.0f}"] for label, row in rows.items()]
    header = ["dictionary", "distinct latents", *PATTERNS, "CPU s"]
    write_table(
        "patterns",
        "The paper's example geometries, counted",
        header,
        table,
        notes(rows, own, lines, options.every),
        options.out,
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, default=Path("runs/demo"))
    parser.add_argument("--every", type=int, default=1, help="test every nth latent only, for a quick look")
    parser.add_argument("--only", nargs="*", default=[], help="make these rows only")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the tables")
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
