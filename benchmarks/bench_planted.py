"""Claim: bilinear autoencoders find manifolds. Which dictionary finds each planted manifold's subspace in ONE latent?

Directions (antipodal pairs), circles, spheres, cones and clusters lie in random subspaces, whose dimensions add up to
more than d. Each token is a sum of points from a few of them. All dictionaries train on the same batches. Each manifold
is matched with a different latent. The untrained autoencoders give the chance level.
"""

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from measure import RESULTS, write_table

from quadric.activations.planted import PlantedConfig, PlantedManifold, PlantedStream, plant
from quadric.autoencoders import Autoencoder, BilinearAutoencoder
from quadric.geometry.recovery import (
    best_span,
    largest_angle,
    leading_eigenvectors,
    match_subspaces,
    overlaps,
    unit_directions,
)
from quadric.runs.recipes import Dictionary, Grid, Scale, autoencoders
from quadric.training import Learner, TrainingConfig, train

KINDS = ("direction", "circle", "sphere", "cone", "cluster")
DICTIONARIES: tuple[Dictionary, ...] = ("atomic", "composite", "quadratic", "topk")
LARGEST_RANK = 3


class Score(NamedTuple):
    """How well one dictionary finds one manifold."""

    dictionary: str
    kind: str
    overlap: float
    angle: float


def planted_config(options: argparse.Namespace) -> PlantedConfig:
    many, few = options.manifolds, -(-2 * options.manifolds // 3)
    return PlantedConfig(
        d_model=options.d_model, n_directions=many, n_circles=many, n_spheres=few, n_cones=few, n_clusters=few,
        n_active=options.active, noise=0.02,
    )  # fmt: skip


def run(options: argparse.Namespace, seed: int) -> list[Score]:
    """Train every dictionary on the same stream, and score it before and after training."""
    planted = planted_config(options)
    manifolds = plant(planted, seed)
    stream = PlantedStream(manifolds, planted, options.batch, seed)
    training = TrainingConfig(steps=options.steps, alpha_warmup_steps=options.steps // 8, checkpoint_every=10**9)
    scale = Scale(n_latents=options.latents, mixing_density=options.mixing_density, n_active=options.topk_active)
    grid = Grid(dictionaries=DICTIONARIES, alphas=(options.alpha,), seeds=(seed,))
    configs = autoencoders((stream.hook_point,), scale, grid)
    learners = [Learner(config.build(planted.d_model), config, training) for config in configs]
    scores = [score for each in learners for score in scored(each.autoencoder, manifolds, ", untrained")]
    with TemporaryDirectory() as checkpoints:  # the run takes minutes, so resuming is not worth it
        train(learners, stream, training, Path(checkpoints))
    return scores + [score for each in learners for score in scored(each.autoencoder, manifolds, "")]


def scored(autoencoder: Autoencoder, manifolds: list[PlantedManifold], state: str) -> Iterator[Score]:
    """Score each manifold on its matched latent; for a linear dictionary also on its r best directions together."""
    subspaces = [each.basis.double() for each in manifolds]
    if isinstance(autoencoder, BilinearAutoencoder):
        latents = leading_eigenvectors(autoencoder, LARGEST_RANK)
        name = autoencoder.prior + state
    else:
        latents = unit_directions(autoencoder.decoder.detach())
        name = "TopK" + state
        for manifold, subspace in zip(manifolds, subspaces, strict=True):
            span = best_span(latents, subspace)
            together = overlaps(span[None], subspace).item()
            yield Score(f"TopK{state}, r latents together", manifold.kind, together, largest_angle(span, subspace))
    for manifold, match in zip(manifolds, match_subspaces(latents, subspaces), strict=True):
        yield Score(name, manifold.kind, match.overlap, match.angle)


def row(dictionary: str, scores: list[Score]) -> list[str]:
    """Mean overlap and mean largest angle per kind of manifold."""
    cells = []
    for kind in KINDS:
        mine = [each for each in scores if (each.dictionary, each.kind) == (dictionary, kind)]
        overlap, angle = (statistics.mean(getattr(each, name) for each in mine) for name in ("overlap", "angle"))
        cells.append(f"{overlap:.2f} ({angle:.0f}°)")
    return [dictionary, *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d-model", type=int, default=48)
    parser.add_argument(
        "--manifolds",
        type=int,
        default=8,
        help="number of directions and of circles; two thirds as many of the other kinds",
    )
    parser.add_argument("--active", type=int, default=3, help="number of manifolds summed in each token")
    parser.add_argument("--latents", type=int, default=128)
    parser.add_argument("--mixing-density", type=float, default=0.02)
    parser.add_argument(
        "--topk-active", type=int, default=9, help="active latents of TopK; the default is three per active manifold"
    )
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the table")
    options = parser.parse_args()
    scores = [score for seed in range(options.seeds) for score in run(options, seed)]
    names = [
        f"{name}{state}"
        for state in ("", ", untrained")
        for name in ("atomic", "composite", "quadratic", "TopK", "TopK, r latents together")
    ]
    names = [
        name.replace("TopK, r latents together, untrained", "TopK, untrained, r latents together") for name in names
    ]
    planted = planted_config(options)
    dimensions = sum(each.basis.shape[1] for each in plant(planted, 0))
    write_table(
        "planted",
        "Planted manifolds: does one latent find the whole subspace?",
        ["dictionary", *(f"{kind}s" for kind in KINDS)],
        [row(name, scores) for name in names],
        f"`python benchmarks/bench_planted.py --steps {options.steps} --seeds {options.seeds}`: {dimensions} planted "
        f"dimensions in d = {options.d_model}, {options.active} manifolds per token, k = {options.latents} latents, "
        f"{options.steps} steps of {options.batch:,} tokens, {options.seeds} seeds, alpha {options.alpha:g}, composite "
        f"density {options.mixing_density:.0%}, TopK K={options.topk_active}. Mean overlap ‖UᵀB‖²/r of the matched "
        "latent's leading r eigenvectors with the manifold's r-dimensional subspace (1 means found exactly), and the "
        "mean largest principal angle. A single direction reaches at most 1/r: ½ for circles, ⅓ for spheres, cones "
        "and clusters.",
        options.out,
    )


if __name__ == "__main__":
    main()
