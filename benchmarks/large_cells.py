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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from quadric._io.files import write_json
from quadric._io.progress import Progress
from quadric.data import ActivationConfig, HarvestConfig, find_model, harvest_to_folder, parse_hook_points
from quadric.data.corpus import CorpusConfig
from quadric.data.models import load_shape
from quadric.data.sources import as_activations
from quadric.evaluation import evaluate
from quadric.model import Composite, Error, Term, TopK, load_pretrained, paper_loss
from quadric.model.objective import unit_tokens
from quadric.model.settings import Bilinear, Mixed, settings_class
from quadric.model.settings import Settings as KindSettings
from quadric.run.config import RunConfig, read_run_config
from quadric.run.folder import autoencoder_folder
from quadric.run.recipes import canonical_hook_points, changed_loss
from quadric.run.running import CHECKPOINTS, is_finished, new_run, train_run
from quadric.studies.sweep.rows import Row, alpha_of, cell_row, row_path, write_row
from quadric.train import Callback, Cell, Learner, Training
from quadric.train.checkpoints import newest_checkpoint, newest_step
from quadric.train.settings import GradientDtype

ATOMS_PER_LATENT = 16.0
"""The paper's 0.1 % of 16,384 atoms."""
PAPER_ALPHA = 0.3
ALPHAS = (0.0, 1.0, 0.1)
"""Further weights of the density penalty, most telling first."""
STRONGEST = 32
"""Latents that the default reconstructs each token from, in small dictionaries too."""
PRIORS = ("composite", "topk", "atomic")
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
    """Steps over which α rises to its value; None shortens the paper's 256 with the steps, as by default."""
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

    @property
    def warmup(self) -> int:
        """Steps over which α rises."""
        return min(256, self.steps // 8) if self.alpha_warmup_steps is None else self.alpha_warmup_steps


def cells(settings: Settings, work: Path) -> list[RunConfig]:
    """All cells, each a run of one autoencoder, most important first."""
    main, others = settings.n_latents, [k for k in settings.widths if k != settings.n_latents]
    found = [*_paper(settings, main, PRIORS), _default(settings, main)]
    for k in (k for k in others if k < main / 2):  # cheap, and they show the trend
        found += [*_paper(settings, k, (*PRIORS, "quadratic")), _default(settings, k)]
    found += [*_paper(settings, main, ("quadratic",)), *_paper(settings, main, ("composite",), seed=1)]
    found += [_default(settings, main, seed=1)]
    if _default(settings, main) != (unpenalized := _default(settings, main, with_mean=False)):
        found += [unpenalized]
    for alpha in ALPHAS:
        found += _paper(settings, main, ("composite",), alpha=alpha)
    for k in (k for k in others if k >= main / 2):
        found += [*_paper(settings, k, (*PRIORS, "quadratic")), _default(settings, k)]
    cache = str(work / "activations" / "train")
    return [replace(each, cache=cache) for each in found]


def _paper(
    settings: Settings, n_latents: int, kinds: tuple[str, ...], alpha: float = PAPER_ALPHA, seed: int = 0
) -> list[RunConfig]:
    made = [_sized(kind, settings, n_latents, "paper") for kind in kinds]
    return [
        _run(each, paper_loss(alpha) if isinstance(each, Bilinear) else each.default_loss(), settings, seed)
        for each in made
    ]


def _default(settings: Settings, n_latents: int, seed: int = 0, *, with_mean: bool = True) -> RunConfig:
    """The default; without its penalty on the mean, what the penalty that it has for many latents does."""
    made = _sized("composite", settings, n_latents, "affine")
    loss = changed_loss(made.default_loss(), {"error.top": STRONGEST})
    return _run(made, tuple(term for term in loss if with_mean or term.name != "mean"), settings, seed)


def _sized(kind: str, settings: Settings, n_latents: int, lens: str) -> KindSettings:
    """A kind with our sizes."""
    n_hidden, made = 2 * n_latents, settings_class(kind)
    given: dict[str, Any] = {}
    if issubclass(made, TopK):
        given = {"n_active": min(settings.n_active, n_latents)}
    if issubclass(made, Bilinear):
        given |= {"lens": lens}
    if issubclass(made, Mixed):
        given |= {"n_hidden": n_hidden}
    if issubclass(made, Composite):
        initial = min(1.0, (settings.initial_atoms or n_hidden) / n_hidden)
        given |= {"atoms_per_latent": min(ATOMS_PER_LATENT, float(n_hidden)), "initial_density": initial}
    return made(n_latents=n_latents, **given)


def _run(made: KindSettings, loss: tuple[Term, ...], settings: Settings, seed: int) -> RunConfig:
    has_alpha = any(term.name == "density" and term.weight for term in made.default_loss())
    if has_alpha and settings.alpha_warmup_steps is not None:
        loss = changed_loss(loss, {"density.warmup": settings.alpha_warmup_steps})
    dtype: GradientDtype = settings.gradient_dtype if isinstance(made, Bilinear) else "auto"

    (place,) = canonical_hook_points(activations(settings))
    cell = Cell(hook_point=place, settings=made, loss=loss, seed=seed)
    training = Training(
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        learning_rate_decay=settings.learning_rate_decay,
        gradient_dtype=dtype,
        checkpoint_every=settings.checkpoint_every,
        keep_checkpoints=1,
    )
    config = RunConfig(
        activations=activations(settings), cells=(replace(cell, name=recorded_name(cell, dtype)),), training=training,
        sequences_per_step=settings.sequences_per_step, epochs=settings.epochs,
    )  # fmt: skip
    if not is_followed(only_cell(config), settings):
        return config
    return replace(config, training=replace(training, keep_checkpoints=settings.steps))


def recorded_name(cell: Cell, gradient_dtype: GradientDtype) -> str:
    """The name of a cell in the records, docs/results/large*/measured.json, which say the sizes of every cell."""
    made, terms = cell.settings, {term.name: term for term in cell.loss}
    if not isinstance(made, Bilinear):
        active = getattr(made, "n_active", None)
        return f"{cell.hook_point}-{made.kind}-k{made.n_latents}-active{active}-seed{cell.seed}"
    sizes = f"k{made.n_latents}"
    if isinstance(made, Mixed):
        sizes += f"-h{made.n_hidden}"
    if isinstance(made, Composite):
        sizes += f"-density{made.mixing_density:g}"
        sizes += f"-from{made.initial_density:g}" if made.initial_density != 1 else ""
    loss = f"alpha{alpha_of(cell):g}"
    loss += f"-overlap{terms['overlap'].weight:g}" if "overlap" in terms else ""
    top = next((term.top for term in cell.loss if isinstance(term, Error)), None)
    loss += "" if top is None else f"-top{top}"
    loss += f"-mean{terms['mean'].weight:g}" if "mean" in terms else ""
    loss += "" if gradient_dtype == "auto" else f"-gradients-{gradient_dtype}"
    kind = made.kind + "-affine" * (made.lens == "affine")
    return f"{cell.hook_point}-{kind}-{sizes}-{loss}-seed{cell.seed}"


def is_followed(cell: Cell, settings: Settings) -> bool:
    """Whether all checkpoints of a cell are kept, to compare seeds over the course of training."""
    made = cell.settings
    printed = (made.kind, made.lens_name, alpha_of(cell)) == ("composite", "paper", PAPER_ALPHA)
    return printed and made.n_latents == settings.n_latents


def activations(settings: Settings, split: str = "train") -> ActivationConfig:
    """The activations of one split; token rules are the library's defaults."""
    corpus = replace(settings.corpus, split=split)
    return ActivationConfig(model=settings.model, hook_points=str(settings.layer), corpus=corpus)


def only_cell(config: RunConfig) -> Cell:
    """The only cell of a run."""
    (found,) = config.cells
    return found


def name_of(config: RunConfig) -> str:
    """The name of the only cell of a run."""
    return only_cell(config).name


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


def train_cell(config: RunConfig, work: Path, held_out: Float[Tensor, "n d"], on_step: Callback) -> None:
    """Train a cell from its last checkpoint to its end, measuring every checkpoint on held-out tokens."""
    folder = work / "runs" / name_of(config)
    if (folder / "run.json").is_file():
        _check_same(read_run_config(folder), config, folder)
    curve = Curve(config, folder, work, held_out)

    def measure(learner: Learner) -> None:
        curve.measure_newest()

    if not (folder / "run.json").is_file():
        with new_run(config, folder):
            train_run(folder, callbacks=[on_step, measure])
    elif not is_finished(folder):
        train_run(folder, callbacks=[on_step, measure])
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
        cell = only_cell(self.config)
        if self.learner is None:
            self.learner = learner_of(self.config, self.held_out.shape[1])
        self.learner.restore(found.learners[cell.name], found.step)
        self.errors[found.step] = held_out_error(self.learner, self.held_out)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {str(step): error for step, error in sorted(self.errors.items())})


def learner_of(config: RunConfig, d_model: int) -> Learner:
    """A new learner of a cell, to restore checkpoints into."""
    cell = only_cell(config)
    return Learner(cell.settings.build(d_model, seed=cell.seed), cell.loss, config.training, name=cell.name)


@torch.no_grad()
def held_out_error(learner: Learner, tokens: Float[Tensor, "n d"]) -> float:
    """Mean product-space error of the dictionary as it is now."""
    return learner.dictionary.eval().error(tokens).mean().item()


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
        cell = only_cell(config)
        made = cell.settings
        printed = made.lens_name is None or (made.lens_name, alpha_of(cell)) == ("paper", PAPER_ALPHA)
        if printed and (made.n_latents, cell.seed) == (settings.n_latents, 0):
            curves[made.kind] = {row["step"]: row["error"] for row in rows if row["cell"] == name_of(config)}
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
    write_row(work, cell_row(only_cell(config), config, autoencoder, found, name))


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
