"""Clusters of points: how many latents of the demo have them, and how many would on tokens without structure.

The points of each latent are replaced by draws, with its own form and weights, from Gaussian tokens and from tokens of
a t distribution (heavier tails), all with the covariance of the real ones: neither has clusters, so every latent that
seems to is a false one. Runs `quadric demo` first, unless the folder holds a finished one. Writes
benchmarks/results/clusters.md.

    python benchmarks/bench_clusters.py [runs/demo]
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from measure import write_table

from quadric.evidence import Evidence
from quadric.evidence.clusters import MADE_BY_DRAW, MOST_LATENTS, LatentClusters, clusters_of, gaussian_points
from quadric.evidence.patterns.cones import with_heavy_tails
from quadric.geometry import DictionaryGeometry, with_signs
from quadric.run.demonstration import default_demonstration, demonstrate
from quadric.run.folder import autoencoder_folders, evidence_folder, load
from quadric.run.geometry import geometry_of_run
from quadric.run.sites import SITE
from quadric.viewer.writer import is_site

DEGREES = (6, 4)
"""Degrees of freedom of the t distributions; fewer have heavier tails."""


def structureless(degrees: int | None, n_tokens: int, n_axes: int, generator: np.random.Generator) -> np.ndarray:
    tokens = generator.standard_normal((n_tokens, n_axes))
    return (tokens if degrees is None else with_heavy_tails(tokens, degrees, generator)).astype(np.float32)


def with_points_of(
    tokens: np.ndarray, evidence: Evidence, geometry: DictionaryGeometry, latents: list[int]
) -> Evidence:
    """The same evidence with points drawn from other tokens, and random directions that show nothing."""
    generator = np.random.default_rng(99)
    coordinates, control = np.array(evidence.points.coordinates), np.array(evidence.points.control)
    for latent in latents:
        coordinates[latent] = gaussian_points(evidence, geometry, latent, tokens, coordinates.shape[1], generator)
        control[latent] = generator.standard_normal(control[latent].shape)
    return replace(evidence, points=replace(evidence.points, coordinates=coordinates, control=control))


def row(name: str, found: dict[int, LatentClusters], seconds: float) -> list[str]:
    stable = [each.n_stable for each in found.values()]
    two = sum(each.n_stable == MADE_BY_DRAW for each in found.values())
    count = sum(len(each.names) for each in found.values())
    have = sum(bool(each.names) for each in found.values())
    return [name, f"{len(found)}", f"{have}", f"{count}", f"{two}", f"{np.mean(stable):.1f}", f"{seconds:.1f}"]


def main(run: Path) -> None:
    if not is_site(run / SITE):
        demonstrate(run, default_demonstration(run), lambda *_: None)
    (name,) = autoencoder_folders(run)
    autoencoder, evidence = load(run), Evidence.load(evidence_folder(run, name))
    centre, signs = evidence.calibration.tokens_centre(), torch.from_numpy(np.array(evidence.calibration.signs))
    geometry = with_signs(geometry_of_run(run, name, autoencoder, moments=centre), signs)
    began = time.process_time()
    found = clusters_of(evidence, geometry)
    rows = [row("the demo's own", found, time.process_time() - began)]
    generator = np.random.default_rng(99)
    for degrees in (None, *DEGREES):
        tokens = structureless(degrees, evidence.n_tokens, evidence.settings.n_axes, generator)
        fake = with_points_of(tokens, evidence, geometry, list(found))
        began = time.process_time()
        label = "Gaussian" if degrees is None else f"t, {degrees} degrees of freedom"
        rows.append(row(label, clusters_of(fake, geometry, seed=5), time.process_time() - began))
    write_table(
        "clusters",
        "Clusters of points, and how often there are false ones",
        ["tokens", "latents searched", "with clusters", "clusters", "with two stable groups", "stable groups", "CPU s"],
        rows,
        notes=(
            f"`python benchmarks/bench_clusters.py`: the {MOST_LATENTS} latents most worth a look of `quadric demo` "
            f"({evidence.n_tokens:,} tokens, {evidence.settings.n_points:,} points per latent). All but the first row "
            "have tokens without clusters, so every cluster in them is a false one; latents with two stable groups are "
            "not counted as having clusters."
        ),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo"))
