"""Comparisons between finished cells of `make reproduce-large`, each stored as a file of its own; and the floor."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from large_cells import PAPER_ALPHA, Settings, name_of, only_autoencoder, stored_tokens

from quadric._files import write_json
from quadric.autoencoders import BilinearAutoencoder, load_pretrained
from quadric.autoencoders.objective import unit_tokens
from quadric.evaluation.floor import TOKENS_PER_LATENT, floor_bounds
from quadric.figures.similarity import measured
from quadric.geometry.comparison import NULL_SEED, Portrait, agreement, portrait
from quadric.geometry.dictionary import require_bilinear
from quadric.geometry.similarity import comparable, randomly_initialized
from quadric.runs.config import RunConfig
from quadric.runs.folder import autoencoder_folder
from quadric.runs.running import is_finished

RANDOM = "random initialization"
SAMPLE_TOKENS = 8192
"""Tokens that the floor's components are computed from, at least."""


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
            write_json(path, _compared(pair, work))


def _compared(pair: Pair, work: Path) -> dict[str, Any]:
    mine, other = _portraits(name_of(pair.first), None if pair.second is None else name_of(pair.second), work)
    first, second = only_autoencoder(pair.first), pair.second and only_autoencoder(pair.second)
    return {
        "about": pair.about, "first": first.name, "second": second.name if second else RANDOM,
        "alpha": first.alpha, "other_alpha": second.alpha if second else None,
        "prior": first.prior, "other_prior": second.prior if second else None,
        **measured(agreement(mine, other)),
    }  # fmt: skip


def _portraits(first: str, second: str | None, work: Path) -> tuple[Portrait, Portrait]:
    mine = _loaded(first, work)
    if second is None:
        return portrait(mine), portrait(randomly_initialized(mine, NULL_SEED))
    own, others = comparable(mine, _loaded(second, work))
    return portrait(own), portrait(others)


def _loaded(name: str, work: Path) -> BilinearAutoencoder:
    return require_bilinear(load_pretrained(autoencoder_folder(work / "runs" / name, name)))


def read_comparisons(work: Path) -> list[dict[str, Any]]:
    """All comparisons made so far."""
    return [json.loads(path.read_text()) for path in sorted((work / "comparisons").glob("*.json"))]


def measure_floor(settings: Settings, work: Path) -> None:
    """Bounds of the PCA floor for every width, from training tokens and on held-out ones."""
    path = work / "floor.json"
    if path.is_file():
        return
    sizes = sorted({*settings.widths, settings.n_latents})
    wanted = max(SAMPLE_TOKENS, TOKENS_PER_LATENT * max(sizes))
    sample = unit_tokens(stored_tokens(settings, work, "train", min(wanted, settings.tokens)))
    rest = unit_tokens(stored_tokens(settings, work, "held_out", settings.held_out_tokens))
    bounds = floor_bounds(sample, rest, [size for size in sizes if size < len(sample)])
    write_json(path, {"sample_tokens": len(sample), "bounds": [each._asdict() for each in bounds]})


def read_floor(work: Path) -> dict[str, Any]:
    """The bounds of the floor, or none yet."""
    path = work / "floor.json"
    return json.loads(path.read_text()) if path.is_file() else {"sample_tokens": 0, "bounds": []}
