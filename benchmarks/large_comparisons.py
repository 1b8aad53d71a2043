"""Comparisons between finished cells of `make reproduce-large`, each stored as a file of its own; and the floor."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float
from large_cells import PAPER_ALPHA, Settings, is_followed, name_of, only_autoencoder, stored_tokens
from torch import Tensor

from quadric._io.files import write_json
from quadric.data import find_model
from quadric.data.models import load_shape
from quadric.evaluation.floor import TOKENS_PER_LATENT, floor_bounds
from quadric.geometry.comparison import NULL_SEED, agreement, portrait
from quadric.geometry.dictionary import check_forms
from quadric.geometry.similarity import comparable, randomly_initialized, without_mean
from quadric.model import BilinearAutoencoder, load_pretrained
from quadric.model.lens import AffineLens
from quadric.model.objective import unit_tokens
from quadric.run.config import RunConfig
from quadric.run.folder import autoencoder_folder
from quadric.run.running import CHECKPOINTS, is_finished
from quadric.studies.figures.similarity import measured
from quadric.train import Learner
from quadric.train.checkpoints import checkpoint_steps, read_checkpoint

RANDOM = "random initialization"
SAMPLE_TOKENS = 8192
"""Tokens that the mean token is computed from."""
FLOOR_TOKENS = 18_432
"""At least this many tokens give the floor's components, whatever the number of latents: fewer widen its bounds."""
WITHOUT_MEAN = ("frobenius", "alignment")
"""Measures of agreement that are also taken of the quadratic blocks alone."""


class Pair(NamedTuple):
    """Two cells to compare, and why; no second cell is a random initialization of the first one's architecture."""

    about: str
    first: RunConfig
    second: RunConfig | None

    @property
    def name(self) -> str:
        return f"{name_of(self.first)}--{name_of(self.second) if self.second else 'random'}"


def pairs(configs: list[RunConfig], settings: Settings) -> Iterator[Pair]:
    """What the claims need: across α, across seeds, across priors, and the chance level of each."""
    main = [each for each in configs if only_autoencoder(each).n_latents == settings.n_latents]
    bilinear = [each for each in main if only_autoencoder(each).kind == "bilinear"]
    printed = [each for each in bilinear if only_autoencoder(each).lens == "paper"]
    default = [each for each in bilinear if only_autoencoder(each).lens != "paper"]
    composite = [each for each in printed if only_autoencoder(each).prior == "composite"]
    alphas = sorted((e for e in composite if only_autoencoder(e).seed == 0), key=lambda e: only_autoencoder(e).alpha)
    reference = next(each for each in alphas if only_autoencoder(each).alpha == PAPER_ALPHA)
    yield Pair("chance, composite", reference, None)
    for other in (each for each in composite if only_autoencoder(each).seed != 0):
        yield Pair("seeds, composite", reference, other)
    if len(default) > 1:
        yield Pair("chance, default", default[0], None)
        yield Pair("seeds, default", default[0], default[1])
    for number, first in enumerate(alphas):
        for second in alphas[number + 1 :]:
            yield Pair("alphas, composite", first, second)
    for other in printed:
        if only_autoencoder(other).prior != "composite":
            yield Pair("priors", reference, other)


def finished(config: RunConfig, work: Path) -> bool:
    """Whether a cell is trained."""
    folder = work / "runs" / name_of(config)
    return (folder / "run.json").is_file() and is_finished(folder)


def compare_finished(configs: list[RunConfig], settings: Settings, work: Path) -> None:
    """Compare every pair whose cells are trained and that has not been compared."""
    for pair in pairs(configs, settings):
        path = work / "comparisons" / f"{pair.name}.json"
        trained = all(finished(each, work) for each in (pair.first, pair.second) if each is not None)
        if trained and not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, _compared(pair, settings, work))


def compare_over_training(configs: list[RunConfig], settings: Settings, work: Path) -> None:
    """Compare two seeds at every checkpoint that both have kept: does their agreement still grow at the end?"""
    d_model = load_shape(find_model(settings.model)).d_model
    for pair in pairs(configs, settings):
        cells = [each for each in (pair.first, pair.second) if each is not None and finished(each, work)]
        if len(cells) < 2 or not all(is_followed(only_autoencoder(each), settings) for each in cells):
            continue
        first, second = cells
        for step in sorted(set(_steps(first, work)) & set(_steps(second, work))):
            path = work / "over_training" / f"{pair.name}-step{step}.json"
            if not path.is_file():
                mine, other = (_at_step(each, step, d_model, work) for each in cells)
                path.parent.mkdir(parents=True, exist_ok=True)
                found = {"step": step, "first": name_of(first), "second": name_of(second)}
                write_json(path, found | agreement_with_and_without_mean(mine, other, mean_token(settings, work)))


def _steps(config: RunConfig, work: Path) -> list[int]:
    return checkpoint_steps(work / "runs" / name_of(config) / CHECKPOINTS)


def _at_step(config: RunConfig, step: int, d_model: int, work: Path) -> BilinearAutoencoder:
    """The autoencoder of a cell as it was at a checkpoint."""
    cell = only_autoencoder(config)
    learner = Learner(cell.build(d_model), cell, config.training)
    learner.restore(read_checkpoint(work / "runs" / cell.name / CHECKPOINTS, step).learners[cell.name], step)
    return check_forms(learner.autoencoder.eval())


def read_over_training(work: Path) -> list[dict[str, Any]]:
    """Agreement of two seeds by step, earliest first."""
    stored = [json.loads(path.read_text()) for path in (work / "over_training").glob("*.json")]
    return sorted(stored, key=lambda each: (each["first"], each["second"], each["step"]))


def _compared(pair: Pair, settings: Settings, work: Path) -> dict[str, Any]:
    mine = _loaded(name_of(pair.first), work)
    other = randomly_initialized(mine, NULL_SEED) if pair.second is None else _loaded(name_of(pair.second), work)
    first, second = only_autoencoder(pair.first), pair.second and only_autoencoder(pair.second)
    return {
        "about": pair.about, "first": first.name, "second": second.name if second else RANDOM,
        "alpha": first.alpha, "other_alpha": second.alpha if second else None,
        "prior": first.prior, "other_prior": second.prior if second else None,
        **agreement_with_and_without_mean(*comparable(mine, other), mean_token(settings, work)),
    }  # fmt: skip


def agreement_with_and_without_mean(
    mine: BilinearAutoencoder, other: BilinearAutoencoder, mean: Float[Tensor, " d"]
) -> dict[str, float]:
    """Agreement of the whole forms, and of their quadratic blocks alone."""
    own_mean = None if isinstance(mine.lens, AffineLens) else mean
    curved = agreement(*(portrait(without_mean(each, own_mean)) for each in (mine, other)))
    found = {f"{name}_without_mean": measured(curved)[name] for name in WITHOUT_MEAN}
    return measured(agreement(portrait(mine), portrait(other))) | found


def mean_token(settings: Settings, work: Path) -> Float[Tensor, " d"]:
    """The mean unit token."""
    return unit_tokens(stored_tokens(settings, work, "train", min(SAMPLE_TOKENS, settings.tokens))).mean(0)


def _loaded(name: str, work: Path) -> BilinearAutoencoder:
    return check_forms(load_pretrained(autoencoder_folder(work / "runs" / name, name)))


def read_comparisons(work: Path) -> list[dict[str, Any]]:
    """All comparisons made so far."""
    return [json.loads(path.read_text()) for path in sorted((work / "comparisons").glob("*.json"))]


def measure_floor(settings: Settings, work: Path) -> None:
    """Bounds of the PCA floor for every width, from training tokens and on held-out ones."""
    largest = max((*settings.widths, settings.n_latents))
    n_tokens = min(max(FLOOR_TOKENS, TOKENS_PER_LATENT * largest), settings.tokens)
    sizes = sorted(size for size in {*settings.widths, settings.n_latents} if size < n_tokens)
    stored = read_floor(work)
    if stored["sample_tokens"] >= n_tokens and {each["n_latents"] for each in stored["bounds"]} >= set(sizes):
        return
    sample = unit_tokens(stored_tokens(settings, work, "train", n_tokens))
    rest = unit_tokens(stored_tokens(settings, work, "held_out", settings.held_out_tokens))
    bounds = floor_bounds(sample, rest, sizes)
    write_json(work / "floor.json", {"sample_tokens": len(sample), "bounds": [each._asdict() for each in bounds]})


def read_floor(work: Path) -> dict[str, Any]:
    """The bounds of the floor, or none yet."""
    path = work / "floor.json"
    return json.loads(path.read_text()) if path.is_file() else {"sample_tokens": 0, "bounds": []}
