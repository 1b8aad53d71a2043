"""`quadric.fit`: train a dictionary on activations, in one call."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from quadric._io.progress import Progress, progress_bar
from quadric.data.models import chosen_device
from quadric.data.provenance import ROWS
from quadric.data.sources import Activations, as_activations
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.fast.products import GradientDtype
from quadric.model.lens import LensKind
from quadric.model.storage import weights_sha256
from quadric.run.config import FILE_NAME, RunConfig, read_run_config
from quadric.run.folder import load
from quadric.run.recipes import autoencoders
from quadric.run.running import extend_run, is_finished, make_learners, new_run, train_run
from quadric.run.scales import FIT, FIT_AS_PRINTED, Dictionary, Grid, Scale, ignored, resized
from quadric.train import AutoencoderConfig, StepReport, TrainingConfig, train
from quadric.train.lenses import estimate_lenses
from quadric.train.loop import remark

FRACTIONAL = {"atoms_per_latent", "initial_density", "alpha", "overlap_penalty", "mean_penalty"}
"""Arguments that may be given as whole numbers."""
CHANGEABLE = ("alpha", "overlap_penalty", "top_latents", "mean_penalty", "gradient_dtype", "seed")
"""Arguments that may differ when a trained dictionary is continued."""
Callback = Callable[[int, StepReport], object]


def fit(
    x: Any,
    n_latents: int | None = None,
    *,
    prior: Dictionary | None = None,
    n_hidden: int | None = None,
    atoms_per_latent: int | float | None = None,
    initial_density: int | float | None = None,
    lens: LensKind | None = None,
    alpha: int | float | None = None,
    overlap_penalty: int | float | None = None,
    top_latents: int | None = None,
    mean_penalty: int | float | None = None,
    tied: bool | None = None,
    n_active: int | None = None,
    steps: int = 300,
    batch_tokens: int = 2048,
    learning_rate: int | float = 0.03,
    learning_rate_decay: int | float = 0.0,
    gradient_dtype: GradientDtype | None = None,
    seed: int = 0,
    hook_point: str | None = None,
    start: Autoencoder | str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    callback: Callback | None = None,
    progress: bool = True,
) -> Autoencoder:
    """Train a dictionary on activations.

    Args:
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or the result of `quadric.harvest`. Rows are
            scaled to unit norm; a tensor or a cache is shuffled, and read as many times as the steps require.
        n_latents: Size of the dictionary; 512 by default.
        prior: `composite` (default), `atomic` or `quadratic`, or a linear baseline: `topk`, `batch_topk`.
        n_hidden: Number of atoms; by default twice `n_latents`, or equal to it if the prior is atomic.
        atoms_per_latent: Average number of atoms per composite latent once C is sparse; 16 by default, as in the paper.
        initial_density: Share of C that a composite dictionary starts with; all of it by default, 1. Less if C is too
            large to be dense: 0.001 of it are 131 atoms per latent at 131,072 atoms.
        lens: `affine` (default) writes forms in centred tokens beside a constant; `paper` in the tokens themselves, and
            has the paper's values as defaults of the next three.
        alpha: Weight of the density penalty; 0.05 by default, and 0.3 in the paper.
        overlap_penalty: Weight of the penalty that keeps latents from being copies of each other; 0.01 by default,
            and none in the paper.
        top_latents: How many latents the training error reconstructs each token from, the strongest; 32 by default,
            and all of them in the paper, which are `n_latents` or more.
        mean_penalty: Weight of the error of all latents together on the mean of each batch, which keeps latents that
            are not among a token's strongest from adding up to a constant; 1 by default for over 600 latents, else 0.
        tied: L = R, so that every atom is a square (w·x)²; False by default.
        n_active: Latents that fire per token, in the linear baselines; 32 by default.
        steps: Number of training steps, one batch each. The schedules of alpha and of the density of C span all steps.
        batch_tokens: Rows per batch.
        learning_rate: Learning rate of Muon. Every step moves an atom by about this much, and atoms start at length
            √(d/h): if C starts sparse, 0.03 is too much for 400 atoms per coordinate, and a warning says so.
        learning_rate_decay: Share of the steps, the last ones, over which the learning rate falls linearly to 0; 0 by
            default, which keeps it constant, as in the paper.
        gradient_dtype: `bfloat16` makes a step about a fifth faster on CPUs with instructions for it, by rounding
            gradients; the error stays in float32. By default `auto`: bfloat16 on CUDA devices, float32 elsewhere.
        seed: Seed of the initial weights and of the order of the rows.
        hook_point: Hook point to train on, if the activations have several.
        start: A trained dictionary (or its folder) to continue from instead of random weights: `steps` more steps at
            full alpha. Its C never becomes denser again.
        out: Folder to keep the run in, so that it can be resumed, evaluated, exported and viewed.
        resume: Continue the run in `out` from its last checkpoint, or start it if there is none. A larger `steps`
            extends the run; any other change of the arguments is an error.
        device: `cpu`, `cuda`, …; `auto` selects an accelerator if there is one.
        callback: Called with the number of finished steps and a `StepReport` after every step.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        The trained autoencoder, in eval mode.

    Example:
        >>> ae = quadric.fit(torch.randn(4000, 32), n_latents=64, steps=30)
        >>> ae.encode(torch.randn(5, 32)).shape
        torch.Size([5, 64])
    """
    source = as_activations(x)
    begun = load(start) if isinstance(start, str | Path) else start
    asked: dict[str, Any] = {
        "n_latents": n_latents, "prior": prior, "n_hidden": n_hidden, "atoms_per_latent": atoms_per_latent,
        "initial_density": initial_density, "lens": lens, "alpha": alpha, "overlap_penalty": overlap_penalty,
        "top_latents": top_latents, "mean_penalty": mean_penalty, "tied": tied, "n_active": n_active,
        "gradient_dtype": gradient_dtype, "seed": seed,
    }  # fmt: skip
    own = _config_of(begun, asked) if begun is not None else _config(**asked)
    config = RunConfig(
        activations=None,
        autoencoders=(replace(own, hook_point=source.sole_hook_point(hook_point)),),
        training=TrainingConfig(
            steps=steps,
            alpha_warmup_steps=0 if begun is not None else min(256, steps // 8),
            learning_rate=_number("learning_rate", learning_rate),
            learning_rate_decay=_number("learning_rate_decay", learning_rate_decay),
            checkpoint_every=max(1, min(256, steps // 4)),
        ),
        tokens_per_step=batch_tokens,
        started_from=None if begun is None else weights_sha256(begun),
    )
    if out is not None:
        return _fit_run(source, config, Path(out), resume, begun, device, callback, progress)
    if resume:
        raise ValueError("resume=True needs the folder of the run; give it as out=")
    return _fit_in_memory(source, config, begun, device, callback, progress)


def _fit_in_memory(
    source: Activations,
    config: RunConfig,
    start: Autoencoder | None,
    device: str,
    callback: Callback | None,
    progress: bool,
) -> Autoencoder:
    stream = _stream(source, config)
    learners = make_learners(config, stream, chosen_device(device), start)
    estimate_lenses(learners, stream)
    with progress_bar(shown=progress) as report:
        train(learners, stream, config.training, None, _reporter(config, report, callback))
    return learners[0].autoencoder.eval()


def _fit_run(
    source: Activations,
    config: RunConfig,
    folder: Path,
    resume: bool,
    start: Autoencoder | None,
    device: str,
    callback: Callback | None,
    progress: bool,
) -> Autoencoder:
    with ExitStack() as stack:
        if resume and (folder / FILE_NAME).is_file():
            _continue_with(config, folder)
        else:
            stack.enter_context(new_run(config, folder, device=device))
        if not is_finished(folder):
            report = _reporter(config, stack.enter_context(progress_bar(shown=progress)), callback)
            train_run(folder, device=device, stream=_stream(source, config), start=start, on_step=report)
    return load(folder).to(chosen_device(device))


def _continue_with(config: RunConfig, folder: Path) -> None:
    """Extend the run to a larger number of steps; any other difference from its config is an error."""
    before = read_run_config(folder)
    if config.training.steps < before.training.steps:
        raise ValueError(
            f"steps={config.training.steps} is fewer than the {before.training.steps} of the run in '{folder}'; "
            f"give at least {before.training.steps}"
        )
    now = config.training
    training = replace(before.training, learning_rate=now.learning_rate, learning_rate_decay=now.learning_rate_decay)
    same = replace(config, training=training, continued_from=before.continued_from)
    if same != before:
        raise ValueError(
            f"the run in '{folder}' was started with other arguments ({'; '.join(_differences(before, same))}); "
            "give the same arguments, or another out="
        )
    extend_run(folder, config.training.steps)


def _differences(before: RunConfig, now: RunConfig) -> list[str]:
    parts = [(before, now), (before.training, now.training), *zip(before.autoencoders, now.autoencoders, strict=True)]
    return [
        f"{name}: {value!r} before, {getattr(other, name)!r} now"
        for one, other in parts
        for name, value in vars(one).items()
        if name not in ("autoencoders", "training") and value != getattr(other, name)
    ]


def _stream(source: Activations, config: RunConfig) -> Any:
    assert config.tokens_per_step is not None
    return source.stream(batch_tokens=config.tokens_per_step, seed=config.autoencoders[0].seed, repeat=True)


def _reporter(
    config: RunConfig, on_progress: Progress, callback: Callback | None
) -> Callable[[int, dict[str, StepReport]], None]:
    def report(step: int, reports: dict[str, StepReport]) -> None:
        (each,) = reports.values()
        on_progress("fit", step, config.training.steps, f"steps, error {each.error:.3f}  density {each.density:.3f}")
        if callback is not None:
            callback(step, each)
        if step == config.training.steps and (words := remark("the autoencoder", each, config.training)):
            warnings.warn(words, stacklevel=2)

    return report


def _config(
    *,
    n_latents: int | None,
    prior: Dictionary | None,
    n_hidden: int | None,
    atoms_per_latent: int | float | None,
    initial_density: int | float | None,
    lens: LensKind | None,
    alpha: int | float | None,
    overlap_penalty: int | float | None,
    top_latents: int | None,
    mean_penalty: int | float | None,
    tied: bool | None,
    n_active: int | None,
    gradient_dtype: GradientDtype | None,
    seed: int,
) -> AutoencoderConfig:
    """The config of the dictionary to train; an argument that the prior does not use is an error."""
    prior = prior or "composite"
    asked = {
        "n_latents": n_latents, "n_hidden": n_hidden, "atoms_per_latent": atoms_per_latent,
        "initial_density": initial_density, "lens": lens, "alpha": alpha, "overlap_penalty": overlap_penalty,
        "top_latents": top_latents, "mean_penalty": mean_penalty, "tied": tied, "n_active": n_active,
        "gradient_dtype": gradient_dtype,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value is not None}
    _refuse_ignored(prior, given)
    scale = resized(_defaults(lens), given | {name: _number(name, given[name]) for name in FRACTIONAL & given.keys()})
    (config,) = autoencoders((ROWS,), scale, Grid(dictionaries=(prior,), seeds=(seed,)))
    return config


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r} is not a number; give one, or leave it out")
    return float(value)


def _defaults(lens: LensKind | None) -> Scale:
    """What an argument is that was not given: our settings, or the paper's for the paper's lens."""
    return FIT_AS_PRINTED if lens == "paper" else FIT


def _refuse_ignored(prior: Dictionary, given: dict[str, Any]) -> None:
    if unused := [f"{name}={given[name]!r}" for name in ignored(given, (prior,))]:
        raise ValueError(f"{', '.join(unused)} has no meaning for prior={prior!r}; leave it out")


def _config_of(start: Autoencoder, asked: dict[str, Any]) -> AutoencoderConfig:
    """The config that continues a trained dictionary: the dictionary's own sizes and the requested alpha."""
    fixed = {name: value for name, value in asked.items() if name not in CHANGEABLE and value is not None}
    if fixed:
        raise ValueError(f"{', '.join(fixed)} cannot be given with start=, which determines it; leave it out")
    architecture = start.architecture
    if not isinstance(start, BilinearAutoencoder):
        kind: Any = start.kind
        return AutoencoderConfig(
            hook_point=ROWS, kind=kind, n_latents=start.n_latents, n_active=architecture.n_active, alpha=0.0
        )
    default = _defaults(start.lens.kind)
    losses = ("alpha", "overlap_penalty", "top_latents", "mean_penalty")
    default = replace(default, **{name: asked[name] for name in losses if asked[name] is not None})
    return AutoencoderConfig(
        hook_point=ROWS,
        prior=start.prior,
        n_latents=start.n_latents,
        n_hidden=start.n_hidden,
        mixing_density=start.mixing_density if start.prior == "composite" else AutoencoderConfig.mixing_density,
        alpha=default.alpha,
        lens=start.lens.kind,
        overlap_penalty=default.overlap_penalty,
        top_latents=default.top_latents,
        mean_penalty=default.mean_penalty_of(start.n_latents),
        symmetric=start.symmetric,
        tied=start.tied,
        init=architecture.init,
        gradient_dtype=asked["gradient_dtype"] or AutoencoderConfig.gradient_dtype,
        seed=asked["seed"],
    )
