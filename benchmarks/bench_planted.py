"""Claim: bilinear autoencoders find manifolds. Which dictionary finds each planted manifold's subspace in ONE latent?

Directions (antipodal pairs), circles, spheres, cones, clusters, circles and spheres about a centre of their own, and
paraboloids lie in random subspaces, whose dimensions add up to more than d. Each token is a sum of points from a few of
them, without and with a common offset that is as large as in a language model. All dictionaries train on the same
batches, through the paper's lens and the affine one. Each manifold is matched with a different latent. The untrained
autoencoders give the chance level.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from measure import paper_settings, write_table
from planted import (
    KnownManifold,
    PlantedConfig,
    PlantedManifold,
    PlantedStream,
    best_span,
    match_subspaces,
    overlaps,
    plant,
    planted_centres,
    recover,
    unit_directions,
)
from torch import Tensor

from quadric.geometry import read
from quadric.geometry.quadrics import AffineForm, lens_affine_form
from quadric.model import BilinearAutoencoder, Composite, Density, Dictionary, Error, Term, TopK, paper_loss
from quadric.model.lens import AffineLens, affine_lens, token_moments
from quadric.train import Cell, Learner, Training, train
from quadric.train.optimizers import Muon

KINDS = ("direction", "circle", "sphere", "cone", "cluster", "shifted circle", "shifted sphere", "paraboloid")
LARGEST_RANK = 3
LEARNING_RATE, MOMENTUM = 0.03, 0.95
"""Of the subspaces."""
PAGES = Path(__file__).parents[1] / "docs" / "results"
PRIORS = ("atomic", "composite", "quadratic")
MEASURED_ON = 10**6
"""Number of the batch that centres are measured on, which training does not reach."""


def has_centre(manifold: PlantedManifold) -> bool:
    """Whether there is a centre to recover: not of a direction, which may be a linear latent, nor of clusters, which
    lie on many quadrics. Of shifted manifolds, only those count whose centre lies inside their subspace."""
    if manifold.shift is not None:
        return bool((manifold.basis.mT @ manifold.shift).norm() > 0.01)
    return manifold.kind not in ("direction", "cluster")


class Score(NamedTuple):
    """How well one dictionary finds one manifold."""

    dictionary: str
    seed: int
    kind: str
    overlap: float | None
    centre_distance: float | None


class Planted(NamedTuple):
    """The manifolds of one seed, as ground truth in the coordinates of unit tokens."""

    manifolds: list[PlantedManifold]
    known: list[KnownManifold]
    mean: Tensor
    """Mean unit token."""
    lens: AffineLens


class Trained(NamedTuple):
    """A dictionary, before or after training."""

    cell: Cell
    dictionary: Dictionary


def planted_config(options: argparse.Namespace, offset: float) -> PlantedConfig:
    many, few = options.manifolds, -(-2 * options.manifolds // 3)
    return PlantedConfig(
        d_model=options.d_model, n_directions=many, n_circles=many, n_spheres=few, n_cones=few, n_clusters=few,
        n_shifted_circles=few, n_shifted_spheres=few, n_paraboloids=few, n_active=options.active, noise=0.02,
        offset=offset,
    )  # fmt: skip


def ground_truth(manifolds: list[PlantedManifold], config: PlantedConfig, seed: int) -> Planted:
    """Centres, radii, the mean token and the lens, from tokens that training does not see."""
    mixture = PlantedStream(manifolds, config, 2**15, seed).mixture(MEASURED_ON)
    known = []
    for manifold, place in zip(manifolds, planted_centres(manifolds, mixture), strict=True):
        curved, has_linear = manifold.curved, manifold.kind in ("direction", "paraboloid")
        centre = place.centre[: curved.shape[1]]
        known.append(KnownManifold(manifold.basis.double(), curved, has_linear, centre, place.radius))
    lens = affine_lens(token_moments(mixture.tokens))
    return Planted(manifolds, known, lens.centre, lens)


def run(options: argparse.Namespace, seed: int, offset: float) -> list[Score]:
    """Train every dictionary on the same stream, and score it before and after training."""
    config = planted_config(options, offset)
    planted = ground_truth(plant(config, seed), config, seed)
    stream = PlantedStream(planted.manifolds, config, options.batch, seed)
    training = Training(steps=options.steps)
    trained = [
        Trained(cell, cell.settings.build(config.d_model, lens=lens, seed=seed))
        for cell in dictionaries(options, seed)
        for lens in [planted.lens if cell.settings.lens_name == "affine" else None]
    ]
    state = ", offset" if offset else ""
    scores = list(mean_token(planted, f"mean token{state}", seed))
    if not offset:
        scores += [s for each in trained if each.cell.settings.lens_name == "paper"
                   for s in scored(each, planted, offset, ", untrained")]  # fmt: skip
    learners = [
        Learner(each.dictionary, each.cell.loss, training, name=each.cell.name, hook_point=each.cell.hook_point)
        for each in trained
    ]
    train(learners, stream, training)
    scores += [score for each in trained for score in scored(each, planted, offset, state)]
    return scores + scored_subspaces(options, planted, stream, seed) if offset else scores


def scored_subspaces(options: argparse.Namespace, planted: Planted, stream: PlantedStream, seed: int) -> list[Score]:
    """Score subspaces of which each token keeps a few."""
    subspaces = train_subspaces(
        lambda step: planted.lens(stream.tokens(step))[:, :-1],
        options.subspaces, LARGEST_RANK, options.kept_subspaces, options.steps, seed,
    )  # fmt: skip
    squares = torch.nn.functional.pad(subspaces.mT @ subspaces, (0, 1, 0, 1))
    forms = [lens_affine_form(square, float(planted.lens.constant)) for square in squares]
    name = f"subspaces, affine, offset, top {options.kept_subspaces}"
    return list(scored_forms(forms, planted, planted.mean, seed, name))


def train_subspaces(
    batches: Callable[[int], Tensor], n_subspaces: int, rank: int, n_kept: int, steps: int, seed: int
) -> Float[Tensor, "g r d"]:
    """Subspaces A_i of fixed rank that reconstruct each token from the few that hold most of its energy.

    v̂ = Σ_{i ∈ top m} W_i v with W_i = A_iᵀA_i and z_i = vᵀW_i v = ‖A_i v‖².
    """
    shape = (n_subspaces * rank, batches(0).shape[1])
    initial = torch.nn.init.orthogonal_(torch.empty(shape), generator=torch.Generator().manual_seed(seed))
    rows = torch.nn.Parameter(initial)
    optimizer = Muon([rows], LEARNING_RATE, MOMENTUM)
    for step in range(steps):
        tokens = batches(step)
        inside = (tokens @ rows.mT).unflatten(1, (n_subspaces, rank))
        kept = inside * _strongest(inside.square().sum(-1), n_kept)[..., None]
        error = (kept.flatten(1) @ rows - tokens).square().sum(-1) / tokens.square().sum(-1).mean()
        error.mean().backward()
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, 2 * (1 - step / steps))
        optimizer.step()
        optimizer.zero_grad()
    return rows.detach().unflatten(0, (n_subspaces, rank))


def _strongest(scores: Float[Tensor, "n k"], count: int) -> Float[Tensor, "n k"]:
    """1 for the largest scores of each token, 0 for the others."""
    scores = scores.detach()
    return (scores >= scores.topk(count, dim=1).values[:, -1:]).to(scores)


def dictionaries(options: argparse.Namespace, seed: int) -> list[Cell]:
    """The priors through both lenses with the loss of all latents; of a few latents; the default; TopK."""
    k, density = options.latents, min(1.0, options.atoms_per_latent / (2 * options.latents))
    lenses = {name: [paper_settings(prior, k, density, lens=name) for prior in PRIORS] for name in ("paper", "affine")}
    whole = paper_loss(options.alpha)
    few: tuple[Term, ...] = (Error(top=options.kept_forms), Density(0.0))
    default, topk = Composite(n_latents=k), TopK(n_latents=k, n_active=options.topk_active)
    chosen = [
        *((settings, whole) for settings in (*lenses["paper"], *lenses["affine"])),
        (paper_settings("composite", k, density, lens="affine"), few),
        (default, default.default_loss()),
        (topk, topk.default_loss()),
    ]
    place = PlantedStream.hook_point
    return [Cell(hook_point=place, settings=settings, loss=loss, seed=seed) for settings, loss in chosen]


def name_of(cell: Cell) -> str:
    top = next((each.top for each in cell.loss if isinstance(each, Error)), None)
    if any(each.name == "overlap" for each in cell.loss):
        return f"default (composite, affine, top {top})"
    return f"{cell.settings.kind}, {cell.settings.lens_name}" + ("" if top is None else f", top {top}")


def scored(trained: Trained, planted: Planted, offset: float, state: str) -> Iterator[Score]:
    """Score each manifold on its matched latent."""
    autoencoder, seed = trained.dictionary, trained.cell.seed
    if not isinstance(autoencoder, BilinearAutoencoder):
        yield from scored_directions(autoencoder, planted, seed, state)
        return
    name, origin = name_of(trained.cell) + state, torch.zeros_like(planted.mean)
    if trained.cell.settings.lens_name == "affine":
        yield from scored_forms(read_forms(autoencoder, planted.mean), planted, planted.mean, seed, name)
    elif not offset:
        yield from scored_forms(read_forms(autoencoder, origin), planted, origin, seed, name)
    else:
        about_origin = read_forms(autoencoder, origin)
        yield from scored_forms(about_origin, planted, origin, seed, f"{name}, read about the origin")
        yield from scored_forms(read_forms(autoencoder, planted.mean), planted, planted.mean, seed, name)


def scored_forms(forms: list[AffineForm], planted: Planted, mean: Tensor, seed: int, name: str) -> Iterator[Score]:
    """Score each manifold on its matched latent, with latents read about `mean`."""
    variance = float(1 - mean.square().sum()) / len(mean)
    for manifold, found in zip(planted.manifolds, recover(forms, mean, planted.known, variance), strict=True):
        distance = found.centre_distance if has_centre(manifold) else None
        yield Score(name, seed, manifold.kind, found.overlap, distance)


def read_forms(autoencoder: BilinearAutoencoder, mean: Tensor) -> list[AffineForm]:
    """Every latent about the mean token."""
    return [read(autoencoder, latent, mean).form for latent in range(autoencoder.n_latents)]


def scored_directions(autoencoder: Dictionary, planted: Planted, seed: int, state: str) -> Iterator[Score]:
    """Score each manifold on its matched direction, and on its r best directions together."""
    directions = unit_directions(autoencoder.decoder.detach())
    subspaces = [each.subspace for each in planted.known]
    for manifold, match in zip(planted.manifolds, match_subspaces(directions, subspaces), strict=True):
        yield Score(f"TopK{state}", seed, manifold.kind, match.overlap, None)
        together = overlaps(best_span(directions, manifold.basis.double())[None], manifold.basis.double()).item()
        yield Score(f"TopK{state}, r latents together", seed, manifold.kind, together, None)


def mean_token(planted: Planted, name: str, seed: int) -> Iterator[Score]:
    """Distance of the mean token from every centre: what a latent without a centre of its own would get."""
    for manifold, known in zip(planted.manifolds, planted.known, strict=True):
        distance = float((known.curved.mT @ planted.mean - known.centre).norm()) / known.radius
        yield Score(name, seed, manifold.kind, None, distance if has_centre(manifold) else None)


def row(dictionary: str, scores: list[Score]) -> list[str]:
    """Per kind: mean overlap ± standard deviation over seeds, and the median distance of the centre."""
    cells = []
    for kind in KINDS:
        mine = [each for each in scores if (each.dictionary, each.kind) == (dictionary, kind)]
        parts = []
        if mine[0].overlap is not None:
            means = [statistics.mean(s.overlap for s in mine if s.seed == seed) for seed in {s.seed for s in mine}]
            parts.append(f"{statistics.mean(means):.2f} ± {statistics.pstdev(means):.2f}")
        if distances := [each.centre_distance for each in mine if each.centre_distance is not None]:
            parts.append(f"({statistics.median(distances):.2f})")
        cells.append(" ".join(parts) or "–")
    return [dictionary, *cells]


def notes(options: argparse.Namespace, mean_norm: float) -> str:
    manifolds = plant(planted_config(options, 0.0), 0)
    dimensions = sum(each.basis.shape[1] for each in manifolds)
    products = sum(each.basis.shape[1] * (each.basis.shape[1] + 1) // 2 for each in manifolds)
    return (
        f"`python benchmarks/bench_planted.py --steps {options.steps} --seeds {options.seeds}`: {len(manifolds)} "
        f"manifolds with {dimensions} dimensions in d = {options.d_model} ({products} dimensions of their own in the "
        f"product space), {options.active} manifolds per token, k = {options.latents} latents, {options.steps} steps "
        f"of {options.batch:,} tokens, {options.seeds} seeds, alpha {options.alpha:g}, {options.atoms_per_latent:g} "
        f"atoms per composite latent, TopK K={options.topk_active}. Offset {options.offset:g}: the mean unit token has "
        f"norm {mean_norm:.2f}.\n\n"
        "Mean overlap ‖UᵀB‖²/r of the matched latent's r leading directions with the manifold's r-dimensional subspace "
        "(1 means found exactly) ± standard deviation over seeds. The directions are eigenvectors of the quadratic "
        "part about the mean token (about the origin for raw forms without an offset, and where the row says so), and "
        "for directions and paraboloids the linear part counts too. In parentheses: "
        "median distance of the quadric's centre from the planted one within the subspace, in radii; for shifted "
        "circles and spheres, of those whose centre lies inside their subspace. `mean token` is the distance of the "
        "mean token from those centres, which a latent without a centre of its own would get. A single direction "
        "reaches at most 1/r: ½ for circles, ⅓ for the three-dimensional kinds. `top m` rows are trained on the "
        "error of the m strongest latents of each token: `default` with the settings of quadric.fit, the other with "
        f"alpha 0; `subspaces` are {options.subspaces} forms of rank {LARGEST_RANK}, see train_subspaces in the script."
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d-model", type=int, default=48)
    parser.add_argument(
        "--manifolds",
        type=int,
        default=6,
        help="number of directions and of circles; two thirds as many of the other kinds",
    )
    parser.add_argument("--active", type=int, default=3, help="number of manifolds summed in each token")
    parser.add_argument("--offset", type=float, default=1.85, help="length of the common offset")
    parser.add_argument("--latents", type=int, default=192)
    parser.add_argument("--atoms-per-latent", type=float, default=5, help="atoms per composite latent")
    parser.add_argument(
        "--topk-active", type=int, default=9, help="active latents of TopK; the default is three per active manifold"
    )
    parser.add_argument("--kept-forms", type=int, default=12, help="latents per token of the sparse forms")
    parser.add_argument("--subspaces", type=int, default=96, help="number of subspaces of rank 3")
    parser.add_argument("--kept-subspaces", type=int, default=3, help="subspaces per token; the default is --active")
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    scores = [
        score
        for offset in (0.0, options.offset)
        for seed in range(options.seeds)
        for score in run(options, seed, offset)
    ]
    config = planted_config(options, options.offset)
    mean = ground_truth(plant(config, 0), config, 0).mean
    names = dict.fromkeys(each.dictionary for each in sorted(scores, key=lambda each: "untrained" in each.dictionary))
    write_table(
        "planted",
        "Planted manifolds: does one latent find the whole subspace, and its centre?",
        ["dictionary", *(f"{kind}s" for kind in KINDS)],
        [row(name, scores) for name in names],
        notes(options, float(mean.norm())),
        options.out,
    )


if __name__ == "__main__":
    main()
