"""`quadric.fit`: train a dictionary on activations, in one call."""

import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

from quadric._io.progress import Progress, progress_bar
from quadric.data.models import chosen_device
from quadric.data.sources import Activations, as_activations
from quadric.model import Dictionary, Settings, Term
from quadric.model.objective import float32_arithmetic
from quadric.model.settings import Composite, LensKind, override, settings_class
from quadric.model.storage import weights_sha256
from quadric.model.terms import Density, as_loss
from quadric.run.config import FILE_NAME, RunConfig, read_run_config
from quadric.run.folder import load
from quadric.run.running import check_same_source, extend_run, is_finished, make_learners, new_run, train_run
from quadric.train import Callback, Cell, Learner, Training, train
from quadric.train.loop import estimate_lenses, remark


@float32_arithmetic()
def fit(
    x: Any,
    kind: Settings | int | None = None,
    *,
    n_latents: int | None = None,
    prior: str | None = None,
    lens: LensKind | None = None,
    steps: int | None = None,
    batch_tokens: int = 2048,
    seed: int = 0,
    loss: Iterable[Term] | None = None,
    training: Training | None = None,
    callbacks: Sequence[Callback] = (),
    hook_point: str | None = None,
    start: Dictionary | str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: bool = True,
) -> Dictionary:
    """Train a dictionary on activations.

    Args:
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or the result of `quadric.harvest`. Rows are
            scaled to unit norm; a tensor or a cache is shuffled, and read as many times as the steps require.
        kind: What to train, with its settings: `quadric.Composite(n_latents=512)` (the default), `Atomic`, `Quadratic`,
            `TopK`, `BatchTopK` or a kind of your own. A number is that of latents.
        n_latents: Size of the dictionary; 512 by default.
        prior: The kind by name instead: `composite`, `atomic`, `quadratic`, `topk`, `batch_topk`.
        lens: `affine` (default) writes forms in centred tokens beside a constant; `paper` in the tokens themselves, and
            trains the paper's loss by default.
        steps: Number of training steps, one batch each; 300 by default. All schedules span them.
        batch_tokens: Rows per batch.
        seed: Seed of the initial weights and of the order of the rows.
        loss: Terms to minimize instead of the kind's own, e.g. `[*kind.default_loss(), MyPenalty(0.1)]`.
        training: Learning rate, its decay, number type of gradients, checkpoints.
        callbacks: Called with the `Learner` after every step; training stops if one returns True.
        hook_point: Hook point to train on, if the activations have several.
        start: A trained dictionary (or its folder) to continue from instead of random weights: `steps` more steps at
            full weights. Its C never becomes denser again.
        out: Folder to keep the run in, so that it can be resumed, evaluated, exported and viewed.
        resume: Continue the run in `out` from its last checkpoint, or start it if there is none. A larger `steps`
            extends the run; any other change of the arguments is an error.
        device: `cpu`, `cuda`, …; `auto` selects an accelerator if there is one.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        The trained dictionary, in eval mode.

    Example:
        >>> ae = quadric.fit(torch.randn(4000, 32), n_latents=64, steps=30)
        >>> ae.encode(torch.randn(5, 32)).shape
        torch.Size([5, 64])
        >>> ae = quadric.fit(torch.randn(4000, 32), quadric.TopK(n_latents=64, n_active=8), steps=30)
    """
    if not isinstance(batch_tokens, Integral) or isinstance(batch_tokens, bool) or batch_tokens < 1:
        raise ValueError(f"batch_tokens={batch_tokens!r} is not a whole number ≥ 1; give the rows per batch")
    source = as_activations(x)
    begun = None if start is None else continued(load(start) if isinstance(start, str | Path) else start)
    asked: dict[str, Any] = {"kind": kind, "n_latents": n_latents, "prior": prior, "lens": lens}
    settings = chosen_settings(**asked) if begun is None else _settings_of(begun, asked)
    terms = _loss(settings, loss, continues=begun is not None)
    training = training or Training()
    config = RunConfig(
        activations=None,
        cells=(Cell(hook_point=source.sole_hook_point(hook_point), settings=settings, loss=terms, seed=seed),),
        training=training if steps is None else replace(training, steps=steps),
        tokens_per_step=int(batch_tokens),
        started_from=None if begun is None else weights_sha256(begun),
    )
    folder, stream = None if out is None else Path(out), _stream(source, config)
    with ExitStack() as unless_it_fails:
        if folder is None and resume:
            raise ValueError("resume=True needs the folder of the run; give it as out=")
        if folder is not None and resume and (folder / FILE_NAME).is_file():
            check_same_source(_stream(source, config), folder)  # also where nothing is left to do
            _continue_with(config, folder)
        elif folder is not None:
            unless_it_fails.enter_context(new_run(config, folder, device=device))
        if folder is None:
            learners = make_learners(config, stream, chosen_device(device), begun)
            estimate_lenses(learners, stream)
            with progress_bar(shown=progress) as report:
                train(learners, stream, config.training, callbacks=[_reporter(config, report), *callbacks])
            return learners[0].dictionary.eval()
        if not is_finished(folder):
            with progress_bar(shown=progress) as report:
                watching = [_reporter(config, report), *callbacks]
                train_run(folder, device=device, stream=stream, start=begun, callbacks=watching)
    return load(folder).to(chosen_device(device))


def chosen_settings(
    kind: Settings | int | None = None,
    n_latents: int | None = None,
    prior: str | None = None,
    lens: LensKind | None = None,
) -> Settings:
    """The settings that the arguments of `fit` stand for; two that contradict each other are an error."""
    if isinstance(kind, Integral) and not isinstance(kind, bool):
        if n_latents is not None:
            raise ValueError(f"kind={kind} and n_latents={n_latents} both give the number of latents; leave one out")
        kind, n_latents = None, int(kind)
    if prior is not None and kind is not None:
        raise ValueError(f"prior={prior!r} and {kind!r} both name what to train; leave one out")
    if kind is not None and not isinstance(kind, Settings):
        raise ValueError(f"{kind!r} is not a kind of dictionary; give e.g. quadric.Composite(n_latents=512)")
    settings = kind or (Composite if prior is None else settings_class(prior))()
    given = {name: value for name, value in (("n_latents", n_latents), ("lens", lens)) if value is not None}
    return override(settings, given)


def _settings_of(start: Dictionary, asked: dict[str, Any]) -> Settings:
    """The settings of a trained dictionary that training continues."""
    if given := [name for name, value in asked.items() if value is not None]:
        raise ValueError(f"{', '.join(given)} cannot be given with start=, which determines it; leave it out")
    return start.settings


def continued(start: Dictionary) -> Dictionary:
    """A copy of a dictionary to train further: its C keeps the density that it has."""
    copied = deepcopy(start)
    if (density := copied.facts().get("mixing_density")) is not None and isinstance(copied.settings, Composite):
        kept = {"atoms_per_latent": density * copied.settings.atoms, "initial_density": density}
        copied.settings = override(copied.settings, kept)
    return copied


def _loss(settings: Settings, loss: Iterable[Term] | None, *, continues: bool) -> tuple[Term, ...]:
    """The loss that was asked for, or the kind's own; a dictionary that is continued needs no warm-up."""
    if loss is not None:
        return as_loss(loss)
    terms = settings.default_loss()
    return tuple(replace(each, warmup=0) if continues and isinstance(each, Density) else each for each in terms)


def _continue_with(config: RunConfig, folder: Path) -> None:
    """Extend the run to a larger number of steps; any other difference from its config is an error."""
    before = read_run_config(folder)
    if config.training.steps < before.training.steps:
        raise ValueError(
            f"steps={config.training.steps} is fewer than the {before.training.steps} of the run in '{folder}'; "
            f"give at least {before.training.steps}"
        )
    same = replace(
        config, training=replace(config.training, steps=before.training.steps), continued_from=before.continued_from
    )
    if found := _differences(_asked(before), _asked(same)):
        raise ValueError(
            f"the run in '{folder}' was started with other arguments ({'; '.join(found)}); "
            "give the same arguments, or another out="
        )
    extend_run(folder, config.training.steps)


def _asked(config: RunConfig) -> dict[str, Any]:
    """What was asked for, without the name of the dictionary, which follows from the rest."""
    asked = config.as_json()
    return asked | {"cells": [{name: each[name] for name in each if name != "name"} for each in asked["cells"]]}


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two records, by name."""
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return [each for key in before for each in _differences(before[key], now[key], key)]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [each for one, other in zip(before, now, strict=True) for each in _differences(one, other, name)]
    same = before == now or (isinstance(before, list | tuple) and list(before) == list(now))
    return [] if same else [f"{name}: {before!r} before, {now!r} now"]


def _stream(source: Activations, config: RunConfig) -> Any:
    assert config.tokens_per_step is not None
    return source.stream(batch_tokens=config.tokens_per_step, seed=config.cells[0].seed, repeat=True)


def _reporter(config: RunConfig, on_progress: Progress) -> Callback:
    shown = [term.name for term in config.cells[0].loss if term.name in ("error", "density")]

    def report(learner: Learner) -> None:
        words = ", ".join(["steps", *(f"{name} {learner.report[name]:.3f}" for name in shown)])
        on_progress("fit", learner.step_index, config.training.steps, words)
        is_last = learner.step_index == config.training.steps
        if is_last and (remarked := remark("the dictionary", learner.report, learner.training.rate)):
            warnings.warn(remarked, stacklevel=2)

    return report
