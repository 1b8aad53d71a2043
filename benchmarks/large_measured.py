"""What `make reproduce-large` has measured: comparisons between finished cells, the floor, and the record of it all.

The work folder has gigabytes of activations and weights and stays on one machine. The record is one small file,
committed with the page, so that another machine goes on with the cells that are missing: it does not train a measured
cell again, and its page has the earlier cells too. Only comparisons need weights; `--again` trains their cells anew.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from floor_bounds import floor_bounds
from jaxtyping import Float
from large_cells import (
    PAPER_ALPHA,
    Settings,
    is_followed,
    learner_of,
    name_of,
    only_cell,
    read_linearity,
    stored_tokens,
)
from torch import Tensor

from quadric._io.files import read_json, write_json
from quadric.data import find_model
from quadric.data.models import load_shape
from quadric.evaluation.measures import TOKENS_PER_LATENT
from quadric.geometry.comparison import NULL_SEED, agreement, portrait
from quadric.geometry.dictionary import check_forms
from quadric.geometry.similarity import comparable, randomly_initialized, without_mean
from quadric.model import Dictionary, load_pretrained
from quadric.model.forms import Forms
from quadric.model.lens import AffineLens
from quadric.model.objective import unit_tokens
from quadric.model.settings import MOST_WITHOUT_MEAN
from quadric.model.settings import Settings as KindSettings
from quadric.run.config import RunConfig
from quadric.run.folder import autoencoder_folder
from quadric.run.recipes import PAPER
from quadric.run.running import CHECKPOINTS, is_finished
from quadric.studies.figures.similarity import measured
from quadric.studies.sweep.rows import Row, alpha_of, read_rows
from quadric.train import Cell
from quadric.train.checkpoints import checkpoint_steps, read_checkpoint

RANDOM = "random initialization"
SAMPLE_TOKENS = 8192
"""Tokens that the mean token is computed from."""
FLOOR_TOKENS = 18_432
"""At least this many tokens give the floor's components, whatever the number of latents: fewer widen its bounds."""
WITHOUT_MEAN = ("frobenius", "alignment")
"""Measures of agreement that are also taken of the quadratic blocks alone."""
AGREEMENTS = {
    "frobenius": "Sim_F", "frobenius_without_mean": "Sim_F without the mean", "hungarian_symmetric": "Sim_H",
    "alignment": "alignment", "alignment_without_mean": "alignment without the mean",
}  # fmt: skip
"""Measures of agreement; those without the mean are of the forms' quadratic blocks alone."""
PRIORS = ("atomic", "composite", "quadratic")
NAME = "measured.json"
PARTS = ("rows", "curves", "linear", "comparisons", "over_training")
"""Folders of the work folder whose files are small."""
FLOOR = "floor.json"
REMEDY = "restore it from git, or delete it to measure all cells again"
BEFORE_THE_CHOICE = {
    "learning_rate": PAPER.training.rate, "learning_rate_decay": PAPER.training.decay, "alpha_warmup_steps": None,
}  # fmt: skip
"""Settings that records lack which were made before there was a choice."""
SCHEDULING = ("checkpoint_every",)
"""Settings on which neither the cells nor their results depend."""


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
    main = [each for each in configs if made_of(each).n_latents == settings.n_latents]
    printed = [each for each in main if made_of(each).lens_name == "paper"]
    default = [each for each in main if made_of(each).lens_name == "affine"]
    composite = [each for each in printed if made_of(each).kind == "composite"]
    alphas = sorted((e for e in composite if only_cell(e).seed == 0), key=lambda e: alpha_of(only_cell(e)) or 0.0)
    reference = next(each for each in alphas if alpha_of(only_cell(each)) == PAPER_ALPHA)
    yield Pair("chance, composite", reference, None)
    for other in (each for each in composite if only_cell(each).seed != 0):
        yield Pair("seeds, composite", reference, other)
    if len(default) > 1:
        yield Pair("chance, default", default[0], None)
        yield Pair("seeds, default", default[0], default[1])
    for number, first in enumerate(alphas):
        for second in alphas[number + 1 :]:
            yield Pair("alphas, composite", first, second)
    for other in printed:
        if made_of(other).kind != "composite":
            yield Pair("priors", reference, other)


def made_of(config: RunConfig) -> KindSettings:
    """The settings of the dictionary of a cell."""
    return only_cell(config).settings


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
        if len(cells) < 2 or not all(is_followed(only_cell(each), settings) for each in cells):
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


def _at_step(config: RunConfig, step: int, d_model: int, work: Path) -> Dictionary:
    """The dictionary of a cell as it was at a checkpoint."""
    name, learner = name_of(config), learner_of(config, d_model)
    learner.restore(read_checkpoint(work / "runs" / name / CHECKPOINTS, step).learners[name], step)
    return check_forms(learner.dictionary.eval())


def read_over_training(work: Path) -> list[dict[str, Any]]:
    """Agreement of two seeds by step, earliest first."""
    stored = [json.loads(path.read_text()) for path in (work / "over_training").glob("*.json")]
    return sorted(stored, key=lambda each: (each["first"], each["second"], each["step"]))


def _compared(pair: Pair, settings: Settings, work: Path) -> dict[str, Any]:
    mine = _loaded(name_of(pair.first), work)
    other = randomly_initialized(mine, NULL_SEED) if pair.second is None else _loaded(name_of(pair.second), work)
    first, second = only_cell(pair.first), pair.second and only_cell(pair.second)
    return {
        "about": pair.about, "first": first.name, "second": second.name if second else RANDOM,
        "alpha": alpha_of(first), "other_alpha": alpha_of(second) if second else None,
        "prior": first.settings.kind, "other_prior": second.settings.kind if second else None,
        **agreement_with_and_without_mean(*comparable(mine, other), mean_token(settings, work)),
    }  # fmt: skip


def agreement_with_and_without_mean(
    mine: Dictionary | Forms, other: Dictionary | Forms, mean: Float[Tensor, " d"]
) -> dict[str, float]:
    """Agreement of the whole forms, and of their quadratic blocks alone."""
    own_mean = None if isinstance(mine.lens, AffineLens) else mean
    curved = agreement(*(portrait(without_mean(each, own_mean)) for each in (mine, other)))
    found = {f"{name}_without_mean": measured(curved)[name] for name in WITHOUT_MEAN}
    return measured(agreement(portrait(mine), portrait(other))) | found


def mean_token(settings: Settings, work: Path) -> Float[Tensor, " d"]:
    """The mean unit token."""
    return unit_tokens(stored_tokens(settings, work, "train", min(SAMPLE_TOKENS, settings.tokens))).mean(0)


def _loaded(name: str, work: Path) -> Dictionary:
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


class Finished(NamedTuple):
    """What is known so far."""

    rows: list[Row]
    comparisons: list[dict[str, Any]]
    over_training: list[dict[str, Any]]
    floor: dict[str, Any]
    settings: Settings

    def main(self, kind: str, *, lens: str | None = "paper") -> Row | None:
        """The row of one main cell."""
        return self.cell(kind, self.settings.n_latents, lens=lens)

    def cell(self, kind: str, n_latents: int, *, lens: str | None = "paper") -> Row | None:
        """The row of the first seed at the paper's alpha; for linear and affine cells, alpha does not select."""
        for row in self.recipes:
            same = (row["kind"], row["lens"], row["seed"], row["n_latents"]) == (kind, lens, 0, n_latents)
            if same and (lens != "paper" or row["alpha"] == PAPER_ALPHA):
                return row
        return None

    @property
    def recipes(self) -> list[Row]:
        """All rows but the default's without its penalty on the mean, which answers only what the penalty does."""
        return [row for row in self.rows if not lacks_penalty(row)]

    @property
    def unpenalized(self) -> Row | None:
        """The default without its penalty on the mean."""
        return next(filter(lacks_penalty, self.rows), None)

    @property
    def topk(self) -> Row | None:
        return self.main("topk", lens=None)

    @property
    def default(self) -> Row | None:
        return self.main("composite", lens="affine")

    @property
    def bilinear(self) -> dict[str, Row]:
        """The main cells of the priors and of the default, as far as they are finished."""
        rows = {prior: self.main(prior) for prior in PRIORS} | {"default": self.default}
        return {name: row for name, row in rows.items() if row is not None}


def is_unpenalized(cell: Cell) -> bool:
    """Whether a cell lacks the penalty on the mean that the default has."""
    has_mean = any(term.name == "mean" for term in cell.loss)
    return cell.settings.lens_name == "affine" and cell.settings.n_latents > MOST_WITHOUT_MEAN and not has_mean


def lacks_penalty(row: Row) -> bool:
    """The same of a row; rows of earlier versions do not name the penalty, and had none."""
    return row["lens"] == "affine" and row["n_latents"] > MOST_WITHOUT_MEAN and not row.get("mean_penalty")


def read_finished(configs: list[RunConfig], work: Path, settings: Settings) -> Finished:
    """Rows of the finished cells with the bounds of the floor for their size, and comparisons between them.

    Cells of other settings may lie in the same folder; they are left out.
    """
    floor, names = read_floor(work), set(map(name_of, configs))
    bounds = {each["n_latents"]: each for each in floor["bounds"]}
    linear = read_linearity(work)
    rows = [
        _with_floor(row, bounds.get(row["n_latents"])) | _with_linearity(linear.get(row["cell"]))
        for row in read_rows(work)
        if row["cell"] in names
    ]
    comparisons = [each for each in read_comparisons(work) if {each["first"], each["second"]} <= names | {RANDOM}]
    over_training = [each for each in read_over_training(work) if {each["first"], each["second"]} <= names]
    return Finished(rows, comparisons, over_training, floor, settings)


def _with_floor(row: Row, bounds: dict[str, float] | None) -> Row:
    found = {"floor": None, "floor_fitted": None}
    return row | (found if bounds is None else {"floor": bounds["held_out"], "floor_fitted": bounds["fitted"]})


def _with_linearity(found: dict[str, float] | None) -> Row:
    shares = {"median": None, "linear": None} if found is None else found
    return {"linear_r2": shares["median"], "linear_share": shares["linear"]}


def error_with_interval(row: Row) -> str:
    """The error of a cell, with its interval over sequences."""
    return f"{row['error']:.4f} ({row['error_low']:.4f}–{row['error_high']:.4f})"


def write_record(configs: list[RunConfig], settings: Settings, work: Path, results: Path) -> None:
    """Store the measurements of these cells beside the page."""
    names = set(map(name_of, configs))
    files = [path for part in PARTS for path in sorted((work / part).glob("*.json"))]
    found = {path: json.loads(path.read_text()) for path in files}
    measured = {
        path.relative_to(work).as_posix(): each for path, each in found.items() if _cells_of(path, each) <= names
    }
    if (work / FLOOR).is_file():
        measured[FLOOR] = json.loads((work / FLOOR).read_text())
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / NAME, {"settings": _comparable(settings), "measured": measured})


def _cells_of(path: Path, measured: dict[str, Any]) -> set[str]:
    """The cell that a file is about, or both of a comparison."""
    return {measured[key] for key in ("first", "second") if key in measured} - {RANDOM} or {path.stem}


def read_record(settings: Settings, results: Path) -> dict[str, Any]:
    """All recorded measurements, by their paths in the work folder; none without a record.

    More `widths` than recorded add cells; fewer would drop some.

    Raises:
        ValueError: the record is one of other settings, whose page would be lost.
    """
    path = results / NAME
    if not path.is_file():
        return {}
    record = read_json(path, REMEDY)
    stored, asked = BEFORE_THE_CHOICE | record["settings"], _comparable(settings)
    if set(stored["widths"]) <= set(asked["widths"]):
        stored["widths"] = asked["widths"]
    if different := [name for name in asked if stored.get(name) != asked[name]]:
        values = ", ".join(f"{name}={stored.get(name)}, now {asked[name]}" for name in different)
        raise ValueError(f"'{path}' was measured with other settings ({values}); give the same, or another --results")
    measured: dict[str, Any] = record["measured"]
    return measured


def recorded_cells(record: dict[str, Any]) -> set[str]:
    """Names of the cells that a record has rows of."""
    return {Path(name).stem for name in record if name.startswith("rows/")}


def restore_record(record: dict[str, Any], work: Path) -> None:
    """Put measurements of another machine into the work folder, unless it has its own."""
    for name, found in record.items():
        if not (work / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            write_json(work / name, found)


def _comparable(settings: Settings) -> dict[str, Any]:
    """The settings on which the result of a cell depends, as JSON has them."""
    named = {name: value for name, value in asdict(settings).items() if name not in SCHEDULING}
    # The folder of a model file is one machine's own.
    found: dict[str, Any] = json.loads(json.dumps(named | {"model": Path(settings.model).name}))
    return found
