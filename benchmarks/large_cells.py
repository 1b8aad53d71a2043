"""Cells of `make reproduce-large`: which dictionaries are trained, and how one of them is trained and measured.

Every cell is an ordinary run folder. Its row and its curve are files of their own, so that a killed run loses at most
the steps since the last checkpoint.

    WORK/activations/train, held_out   stored once, for all cells
    WORK/runs/CELL/                    the run
    WORK/curves/CELL.json              held-out error by step
    WORK/rows/CELL.json                measures of the finished cell
    WORK/linear/CELL.json              how linear its latents are
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from quadric.run.scales import LARGE, PAPER, Dictionary, Scale, resized
from quadric.studies.sweep.results import row_path, write_row
from torch import Tensor

from quadric._io.files import write_json
from quadric._io.progress import Progress
from quadric.data import ActivationConfig, HarvestConfig, find_model, harvest_to_folder, parse_hook_points
from quadric.data.corpus import CorpusConfig
from quadric.data.models import load_shape
from quadric.data.sources import as_activations
from quadric.evaluation import evaluate
from quadric.model import load_pretrained
from quadric.model.objective import unit_tokens
from quadric.model.products import GradientDtype
from quadric.run.config import RunConfig, read_run_config
from quadric.run.folder import autoencoder_folder
from quadric.run.recipes import Grid, make_run_config
from quadric.run.running import CHECKPOINTS, is_finished, new_run, train_run
from quadric.studies.sweep.rows import Row, cell_row
from quadric.train import AutoencoderConfig, Learner, StepReport
from quadric.train.checkpoints import newest_checkpoint, newest_step

ATOMS_PER_LATENT = 16.0
"""The paper's 0.1 % of 16,384 atoms."""
PAPER_ALPHA = 0.3
ALPHAS = (0.0, 1.0, 0.1)
"""Further weights of the density penalty, most telling first."""
PRIORS: tuple[Dictionary, ...] = ("composite", "topk", "atomic")
CURVE_TOKENS = 8192
FLAT = 0.02
"""A curve counts as flat if the error falls by less than this share over the last quarter of the steps."""
LINEAR = 0.9
"""A latent counts as linear if a linear function of the token explains more of its variance than this."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that the cells have in common."""

    model: str
    corpus: CorpusConfig
    layer: int
    n_latents: int
    """Latents of the main cells."""
    widths: tuple[int, ...]
    """Latents of the cells of the figure over k; the main cells are part of it."""
    n_active: int
    initial_atoms: float | None
    """Atoms per latent that composite dictionaries start with; None for all of them, as printed."""
    gradient_dtype: GradientDtype
    """Number type of the products that give the gradients of the atoms."""
    steps: int
    alpha_warmup_steps: int | None
    """Steps over which α rises to its value; None shortens the paper's 256 with the steps, as recipes do."""
    learning_rate: float
    learning_rate_decay: float
    sequences_per_step: int
    tokens: int
    """Training tokens to store; they are read as often as the steps need."""
    held_out_tokens: int
    checkpoint_every: int
    """Steps between checkpoints, which are also the points of the curve of held-out error."""

    @property
    def epochs(self) -> int:
        return -(-self.steps * self.sequences_per_step * self.corpus.block_length // self.tokens) + 1


def cells(settings: Settings, work: Path) -> list[RunConfig]:
    """All cells, each a run of one autoencoder, most important first."""
    main, others = settings.n_latents, [k for k in settings.widths if k != settings.n_latents]
    found = [*_paper(settings, main, PRIORS), _default(settings, main)]
    for k in (k for k in others if k < main / 2):  # cheap, and they show the trend
        found += [*_paper(settings, k, (*PRIORS, "quadratic")), _default(settings, k)]
    found += [*_paper(settings, main, ("quadratic",)), *_paper(settings, main, ("composite",), seed=1)]
    found += [_default(settings, main, seed=1)]
    if _default(settings, main) != (unpenalized := _default(settings, main, mean_penalty=0.0)):
        found += [unpenalized]
    for alpha in ALPHAS:
        found += _paper(settings, main, ("composite",), alpha=alpha)
    for k in (k for k in others if k >= main / 2):
        found += [*_paper(settings, k, (*PRIORS, "quadratic")), _default(settings, k)]
    cache = str(work / "activations" / "train")
    return [replace(each, cache=cache) for each in found]


def _paper(
    settings: Settings, n_latents: int, kinds: tuple[Dictionary, ...], alpha: float = PAPER_ALPHA, seed: int = 0
) -> list[RunConfig]:
    scale = _sized(PAPER, settings, n_latents)
    return [_run(scale, settings, Grid(dictionaries=(kind,), alphas=(alpha,), seeds=(seed,))) for kind in kinds]


def _default(settings: Settings, n_latents: int, seed: int = 0, mean_penalty: float | None = None) -> RunConfig:
    """The default; with a penalty on the mean of 0, what the penalty that it has for many latents does."""
    scale = replace(_sized(LARGE, settings, n_latents), mean_penalty=mean_penalty)
    return _run(scale, settings, Grid(seeds=(seed,)))


def _sized(recipe: Scale, settings: Settings, n_latents: int) -> Scale:
    """The recipe with our sizes; everything else, such as the schedules, is the recipe's."""
    changes = {
        "n_latents": n_latents, "n_hidden": 2 * n_latents, "atoms_per_latent": min(ATOMS_PER_LATENT, 2 * n_latents),
        "initial_density": min(1.0, (settings.initial_atoms or 2 * n_latents) / (2 * n_latents)),
        "n_active": min(settings.n_active, n_latents), "gradient_dtype": settings.gradient_dtype,
        "steps": settings.steps, "epochs": settings.epochs,
        "learning_rate": settings.learning_rate, "learning_rate_decay": settings.learning_rate_decay,
        "sequences_per_step": settings.sequences_per_step, "checkpoint_every": settings.checkpoint_every,
        "keep_checkpoints": 1,
    }  # fmt: skip
    if settings.alpha_warmup_steps is not None:
        changes["alpha_warmup_steps"] = settings.alpha_warmup_steps
    return resized(recipe, changes)


def _run(scale: Scale, settings: Settings, grid: Grid) -> RunConfig:
    config = make_run_config(scale, activations(settings), grid)
    if not is_followed(only_autoencoder(config), settings):
        return config
    return replace(config, training=replace(config.training, keep_checkpoints=settings.steps))


def is_followed(cell: AutoencoderConfig, settings: Settings) -> bool:
    """Whether all checkpoints of a cell are kept, to compare seeds over the course of training."""
    printed = cell.kind == "bilinear" and (cell.prior, cell.lens, cell.alpha) == ("composite", "paper", PAPER_ALPHA)
    return printed and cell.n_latents == settings.n_latents


def activations(settings: Settings, split: str = "train") -> ActivationConfig:
    """The activations of one split; token rules are the library's defaults."""
    corpus = replace(settings.corpus, split=split)
    return ActivationConfig(model=settings.model, hook_points=str(settings.layer), corpus=corpus)


def only_autoencoder(config: RunConfig) -> AutoencoderConfig:
    """The autoencoder of a cell."""
    (found,) = config.autoencoders
    return found


def name_of(config: RunConfig) -> str:
    """The name of a cell, which is that of its autoencoder."""
    return only_autoencoder(config).name


def harvest_both(settings: Settings, work: Path, on_progress: Progress) -> None:
    """Store the activations of both splits; what is stored already is not computed again."""
    for split, tokens in (("train", settings.tokens), ("held_out", settings.held_out_tokens)):
        harvest_to_folder(
            activations(settings, split),
            HarvestConfig(tokens=tokens),
            work / "activations" / split,
            on_progress=lambda _, done, total, words, split=split: on_progress(split, done, total, words),
        )


def stored_tokens(settings: Settings, work: Path, split: str, count: int) -> Float[Tensor, "n d"]:
    """The first `count` stored activations of a split."""
    source = as_activations(work / "activations" / split)
    (hook_point,) = source.hook_points
    return next(iter(source.stream(batch_tokens=min(count, len(source)), seed=None))).activations[hook_point]


def train_cell(config: RunConfig, work: Path, held_out: Float[Tensor, "n d"], on_step: Callable[..., None]) -> None:
    """Train a cell from its last checkpoint to its end, measuring every checkpoint on held-out tokens."""
    folder = work / "runs" / name_of(config)
    if (folder / "run.json").is_file():
        _check_same(read_run_config(folder), config, folder)
    curve = Curve(config, folder, work, held_out)

    def watch(step: int, reports: dict[str, StepReport]) -> None:
        on_step(step, reports)
        curve.measure_newest()

    if not (folder / "run.json").is_file():
        with new_run(config, folder):
            train_run(folder, on_step=watch)
    elif not is_finished(folder):
        train_run(folder, on_step=watch)
    curve.measure_newest()


def _check_same(stored: RunConfig, asked: RunConfig, folder: Path) -> None:
    if replace(stored, cache=asked.cache) != asked:
        raise ValueError(
            f"'{folder}' was started with other settings (steps={stored.training.steps}, now {asked.training.steps}, "
            "or another text or recipe); give the same, or another --work"
        )


class Curve:
    """Held-out error by step: of every checkpoint, read from disk while training goes on.

    The training loop itself knows no held-out tokens. A run that was killed measures its newest checkpoint when it goes
    on, before the next one replaces it.
    """

    def __init__(self, config: RunConfig, folder: Path, work: Path, held_out: Float[Tensor, "n d"]) -> None:
        self.config, self.folder, self.held_out = config, folder, held_out
        self.path = curve_path(work, name_of(config))
        self.errors = read_curve(self.path)
        self.learner: Learner | None = None
        """Built once: an orthogonal C of this size takes long to draw."""

    def measure_newest(self) -> None:
        """Measure the newest checkpoint unless that was done."""
        step = newest_step(self.folder / CHECKPOINTS)
        if step is None or step in self.errors:
            return
        found, _ = newest_checkpoint(self.folder / CHECKPOINTS)
        if found is None:
            return
        config = only_autoencoder(self.config)
        if self.learner is None:
            self.learner = Learner(config.build(self.held_out.shape[1]), config, self.config.training)
        self.learner.restore(found.learners[config.name], found.step)
        self.errors[found.step] = held_out_error(self.learner, self.held_out)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {str(step): error for step, error in sorted(self.errors.items())})


@torch.no_grad()
def held_out_error(learner: Learner, tokens: Float[Tensor, "n d"]) -> float:
    """Mean product-space error of the autoencoder as it is now."""
    return learner.autoencoder.eval().error(tokens).mean().item()


def curve_path(work: Path, name: str) -> Path:
    """Where a cell's curve is stored."""
    return work / "curves" / f"{name}.json"


def read_curve(path: Path) -> dict[int, float]:
    """Held-out error by step; empty if nothing was measured yet."""
    stored = json.loads(path.read_text()) if path.is_file() else {}
    return {int(step): error for step, error in stored.items()}


def convergence(configs: list[RunConfig], work: Path) -> list[Row]:
    """Held-out error by step of every cell, also of those that are still being trained; none from its start alone."""
    curves = {name_of(config): read_curve(curve_path(work, name_of(config))) for config in configs}
    return [
        {"cell": name, "step": step, "error": error}
        for name, curve in curves.items()
        for step, error in curve.items()
        if len(curve) > 1
    ]


def fall_over_the_last_quarter(curve: dict[int, float], steps: int) -> float | None:
    """Share of the error that the last quarter of the steps removes; None for a curve that has not reached its end."""
    before = [step for step in curve if step <= 0.75 * steps]
    if steps not in curve or not before:
        return None
    earlier = curve[max(before)]
    return (earlier - curve[steps]) / earlier


def flatness(rows: list[Row], steps: int, words: dict[str, str]) -> Iterator[str]:
    """How far each curve still falls over its last quarter; `words` by the names of the cells."""
    for name in dict.fromkeys(row["cell"] for row in rows):
        curve = {row["step"]: row["error"] for row in rows if row["cell"] == name}
        last, fall = max(curve), fall_over_the_last_quarter(curve, steps)
        if fall is None:
            yield f"| {words[name]} | {last} | – | {curve[last]:.4f} | – | unfinished |"
            continue
        earlier = curve[max(step for step in curve if step <= 0.75 * last)]
        verdict = "flat" if abs(fall) < FLAT else "still falling" if fall > 0 else "rising"
        yield f"| {words[name]} | {last} | {earlier:.4f} | {curve[last]:.4f} | {fall:+.1%} | {verdict} |"


def order_at_equal_steps(configs: list[RunConfig], rows: list[Row], settings: Settings) -> str:
    """Errors of the priors and TopK at the last step that all of them have reached, also of unfinished cells."""
    curves = {}
    for config in configs:
        cell = only_autoencoder(config)
        is_linear = cell.kind != "bilinear"
        printed = is_linear or (cell.lens, cell.alpha) == ("paper", PAPER_ALPHA)
        if printed and (cell.n_latents, cell.seed) == (settings.n_latents, 0):
            curve = {row["step"]: row["error"] for row in rows if row["cell"] == name_of(config)}
            curves[cell.kind if is_linear else cell.prior] = curve
    started = {kind: curve for kind, curve in curves.items() if len(curve) > 1}
    if len(started) < 2:
        return ""
    step = max(set.intersection(*map(set, started.values())))
    order = sorted(started, key=lambda kind: started[kind][step])
    said = " < ".join(f"{kind} {started[kind][step]:.4f}" for kind in order)
    return f"After {step} steps, the last that {', '.join(started)} have all reached: {said}."


def measure_cell(config: RunConfig, work: Path, settings: Settings) -> None:
    """Measure a trained cell on held-out tokens and store its row, unless that was done."""
    name = name_of(config)
    if row_path(work, name).is_file():
        return
    autoencoder = load_pretrained(autoencoder_folder(work / "runs" / name, name))
    found = evaluate(autoencoder, work / "activations" / "held_out", tokens=settings.held_out_tokens, progress=False)
    write_row(work, cell_row(only_autoencoder(config), config, autoencoder, found, name))


def linear_share(unit: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """R² of every latent by least squares on the tokens and a constant: fitted on one half, measured on the other."""
    inputs = torch.cat([unit, torch.ones(len(unit), 1)], dim=1).double()
    half = len(unit) // 2
    slopes = torch.linalg.lstsq(inputs[:half], latents[:half].double()).solution
    rest = latents[half:].double()
    missed = (rest - inputs[half:] @ slopes).square().sum(0)
    return (1 - missed / (rest - rest.mean(0)).square().sum(0)).clamp(min=0)


def measure_linearity(config: RunConfig, work: Path, settings: Settings) -> None:
    """Measure how much of its latents a linear function of the token says, unless that was done."""
    name = name_of(config)
    path = work / "linear" / f"{name}.json"
    if path.is_file():
        return
    autoencoder = load_pretrained(autoencoder_folder(work / "runs" / name, name))
    unit = unit_tokens(stored_tokens(settings, work, "held_out", settings.held_out_tokens))
    with torch.no_grad():
        shares = linear_share(unit, autoencoder.encode(unit)).nan_to_num(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {"cell": name, "median": shares.median().item(), "linear": (shares > LINEAR).mean(dtype=torch.float64).item()},
    )


def read_linearity(work: Path) -> dict[str, dict[str, float]]:
    """Median share that a linear function says, and how many latents are linear, by the names of the cells."""
    stored = [json.loads(path.read_text()) for path in (work / "linear").glob("*.json")]
    return {each["cell"]: each for each in stored}


def checked_layer(model: str, layer: int | None, fraction: float) -> int:
    """The layer asked for, or the one at a fraction of the model's depth."""
    shape = load_shape(find_model(model))
    wanted = layers_at(shape.n_layers, (fraction,))[0] if layer is None else layer
    parse_hook_points(str(wanted), shape.n_layers)
    return wanted


def layers_at(n_layers: int, fractions: tuple[float, ...]) -> list[int]:
    """Layers at fractions of a model's depth, each once; not the first, whose input is the embedding."""
    last = n_layers - 1
    return list(dict.fromkeys(min(last, max(1, round(fraction * n_layers))) for fraction in fractions))


def widths_of(d_model: int, largest: int) -> tuple[int, ...]:
    """Half the model's width and its doublings, up to the largest number of latents."""

    def doubled() -> Iterator[int]:
        k = d_model // 2
        while k < largest:
            yield k
            k *= 2
        yield largest

    return tuple(dict.fromkeys(doubled()))
