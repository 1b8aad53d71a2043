"""Evaluate an autoencoder on activations, or any number of them on held-out text, with few passes of the model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quadric._io.progress import Progress, no_progress, progress_bar
from quadric.data import ActivationConfig, BatchSize, LiveStream, parse_hook_point
from quadric.data.forward import Replacement, predictions
from quadric.data.hook_points import HookPoint
from quadric.data.live_stream import ForwardPass
from quadric.data.provenance import ROWS, ProvenanceError, config_from
from quadric.data.sources import Activations, as_activations
from quadric.evaluation.measures import ErrorAccumulator
from quadric.evaluation.record import Evaluation, PredictionSums, Recovered, evaluation_of
from quadric.evaluation.settings import EvaluationSettings
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.objective import float32_arithmetic

BATCH_TOKENS = 4096


@float32_arithmetic()
def evaluate(
    autoencoder: Dictionary,
    x: Any,
    *,
    hook_point: str | None = None,
    tokens: int | None = None,
    progress: bool = True,
) -> Evaluation:
    """Measure error, density, dense and dead latents on activations.

    Args:
        autoencoder: Any dictionary, also of a kind of your own.
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or what `quadric.harvest` returned. Give rows
            that were not trained on.
        hook_point: Which hook point to read, where the activations have several; by default the autoencoder's own.
        tokens: Rows to measure on; all by default.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        An `Evaluation`: prints as a short table, `to_dict()`, `to_pandas()`, and its numbers by name (`error`,
        `density`, `dense_share`, `dead_share`).

    Example:
        >>> report = quadric.evaluate(ae, torch.randn(500, 32))
        >>> report.error < 1
        True
    """
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens={tokens} is not positive; give how many rows to measure on, or leave it out for all")
    source = as_activations(x)
    point = _point_to_read(autoencoder, source, hook_point)
    accumulator = ErrorAccumulator(autoencoder)
    total = getattr(source, "__len__", lambda: tokens or 0)()
    with progress_bar(shown=progress) as report:
        for batch in source.stream(batch_tokens=BATCH_TOKENS, seed=None):
            batch = batch if tokens is None else batch.rows(0, tokens - accumulator.n_tokens)
            vectors = batch.activations[point].to(next(autoencoder.parameters()).device)
            accumulator.add(vectors, batch.sequences, batch.positions)
            report("evaluate", accumulator.n_tokens, tokens or total, "tokens")
            if tokens is not None and accumulator.n_tokens >= tokens:
                break
    return evaluation_of(autoencoder, accumulator.measures(), source.provenance, hook_point=point)


def _point_to_read(autoencoder: Dictionary, source: Activations, wanted: str | None) -> str:
    """The hook point that was asked for, or the autoencoder's own; rows of a tensor have none."""
    own = autoencoder.provenance.hook_point
    point = source.sole_hook_point(wanted or (own if own in source.hook_points else None))
    if wanted is None and point != own and ROWS not in (point, own or ROWS):
        raise ValueError(
            f"the activations are those of {point}, but the dictionary reads {own}; give activations of {own}, or "
            f"hook_point={point!r} to measure it on these"
        )
    return point


class Candidate(NamedTuple):
    """An autoencoder to evaluate, with the names to show."""

    run: str
    name: str
    autoencoder: Dictionary

    @property
    def hook_point(self) -> str:
        assert self.autoencoder.provenance.hook_point is not None
        return self.autoencoder.provenance.hook_point


@float32_arithmetic()
def evaluate_on_text(
    candidates: list[Candidate],
    settings: EvaluationSettings,
    *,
    device: str = "auto",
    on_progress: Progress = no_progress,
) -> list[Evaluation]:
    """Evaluate autoencoders on text; those that were trained on the same model and text share its forward passes.

    Args:
        candidates: The autoencoders, each with the name of its run and its own name.
        settings: Which text to read, and how much.
        device: Device of the language model.
        on_progress: Called as tokens are read: first for "errors", then for "predictions".

    Returns:
        One evaluation per candidate, in their order.

    Example:
        >>> from quadric.evaluation import Candidate, EvaluationSettings, evaluate_on_text
        >>> settings = EvaluationSettings(tokens=200, spliced_tokens=100)
        >>> (found,) = evaluate_on_text([Candidate("runs/demo", "demo", ae)], settings)
        >>> 0 < found.error < 2
        True
    """
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(repr(_config(candidate, settings)), []).append(candidate)
    found = {id(each): result for group in groups.values()
             for each, result in zip(group, _evaluate(group, settings, device, on_progress), strict=True)}  # fmt: skip
    return [found[id(candidate)] for candidate in candidates]


def _config(candidate: Candidate, settings: EvaluationSettings) -> ActivationConfig:
    """Activation config of a candidate with its hook point replaced, so that equal configs can be grouped."""
    config = config_from(candidate.autoencoder.provenance, model=settings.model, corpus=settings.corpus)
    return replace(config, hook_points="0", corpus=replace(config.corpus, split=settings.split))


def _evaluate(
    group: list[Candidate], settings: EvaluationSettings, device: str, on_progress: Progress
) -> list[Evaluation]:
    names = ",".join(dict.fromkeys(each.hook_point for each in group))
    config = replace(_config(group[0], settings), hook_points=names)
    stream = LiveStream.open(config, device=device, batch=BatchSize(tokens=BATCH_TOKENS))
    for candidate in group:
        _check_model(candidate, stream)
        candidate.autoencoder.to(stream.model.device).eval()
    measurings, means = _measure(group, stream, settings.tokens, on_progress)
    recovered = _recover(group, stream, means, settings.spliced_tokens, on_progress)
    return [
        evaluation_of(
            each.autoencoder,
            measuring.measures(),
            stream.provenance,
            run=each.run,
            name=each.name,
            hook_point=each.hook_point,
            recovered=result,
        )
        for each, measuring, result in zip(group, measurings, recovered, strict=True)
    ]


def _check_model(candidate: Candidate, stream: LiveStream) -> None:
    """Raise an error unless the model and tokenizer are those of the autoencoder; results would look plausible."""
    recorded = candidate.autoencoder.provenance
    for name in ("model_revision", "tokenizer_fingerprint"):
        here, there = getattr(stream.provenance, name), getattr(recorded, name)
        if there not in (None, here):  # a dictionary that was trained elsewhere records neither
            raise ProvenanceError(
                f"{candidate.name} was trained with {name} {there}, but '{stream.config.model}' has {here}; "
                "give the original model with --model"
            )


def _measure(
    group: list[Candidate], stream: LiveStream, tokens: int, on_progress: Progress
) -> tuple[list[ErrorAccumulator], dict[str, Tensor]]:
    """First pass: errors and latents of every autoencoder, and the mean vector at every hook point."""
    measurings = [ErrorAccumulator(each.autoencoder) for each in group]
    sums = {name: torch.zeros(stream.d_model, dtype=torch.float64) for name in stream.hook_points}
    done = 0
    for batch in stream:
        batch = batch.rows(0, min(len(batch), tokens - done))
        for name, vectors in batch.activations.items():
            sums[name] += exact(vectors).sum(0).cpu()
        for candidate, measuring in zip(group, measurings, strict=True):
            measuring.add(batch.activations[candidate.hook_point], batch.sequences, batch.positions)
        done += len(batch)
        on_progress("errors", done, tokens, "")
        if done == tokens:
            break
    return measurings, {name: (total / max(done, 1)).float() for name, total in sums.items()}


class _Condition(NamedTuple):
    """One way of replacing vectors, and the sums over the resulting predictions."""

    point: HookPoint
    rebuild: Callable[[Tensor], Tensor]
    sums: PredictionSums


def _recover(
    group: list[Candidate], stream: LiveStream, means: dict[str, Tensor], tokens: int, on_progress: Progress
) -> list[Recovered | None]:
    """Second pass: predict whole sequences with reconstructed vectors."""
    if not tokens:
        return [None] * len(group)
    device = stream.model.device
    points = {name: parse_hook_point(name, stream.model.n_layers) for name in stream.hook_points}
    own = [_Condition(points[each.hook_point], each.autoencoder.rebuild, PredictionSums()) for each in group]
    borrowed = [_with_borrowed_sign(each.autoencoder, condition) for each, condition in zip(group, own, strict=True)]
    zero = {name: _Condition(point, torch.zeros_like, PredictionSums()) for name, point in points.items()}
    mean = {
        name: _Condition(point, means[name].to(device).expand_as, PredictionSums()) for name, point in points.items()
    }
    original, done = PredictionSums(), 0
    for forward in stream.passes():
        others = [each for each in borrowed if each is not None and each not in own]
        _predict(stream, forward, [*own, *others, *zero.values(), *mean.values()], original)
        done += int(forward.sequences.mask.sum())
        on_progress("predictions", min(done, tokens), tokens, "")
        if done >= tokens:
            break
    return [
        Recovered(
            n_tokens=original.n_tokens,
            original=original.mean().cross_entropy,
            spliced=condition.sums.mean(),
            zero=zero[each.hook_point].sums.mean(),
            mean=mean[each.hook_point].sums.mean(),
            borrowed=None if other is None else other.sums.mean(),
        )
        for each, condition, other in zip(group, own, borrowed, strict=True)
    ]


def _with_borrowed_sign(autoencoder: Dictionary, own: _Condition) -> _Condition | None:
    """The condition in which √λ₁v₁ takes the token's sign; the dictionary's own if it has no other decoding."""
    if not autoencoder.rebuilds_products:
        return None
    if autoencoder.lens.kind == "paper":
        return own
    return _Condition(own.point, autoencoder.rebuild_by_rank_one, PredictionSums())


@torch.no_grad()
def _predict(stream: LiveStream, forward: ForwardPass, conditions: list[_Condition], original: PredictionSums) -> None:
    """One forward pass of the unmodified model, and one for every condition."""
    read = forward.sequences
    untouched = predictions(stream.model, read.tokens, read.mask)
    original.add(untouched, untouched, read.tokens, read.mask)
    kept = torch.zeros_like(read.mask)
    kept[forward.batch.sequences - read.first, forward.batch.positions] = True
    for condition in conditions:
        vectors = condition.rebuild(forward.batch.activations[str(condition.point)])
        replaced = Replacement(condition.point, kept, vectors)
        condition.sums.add(
            predictions(stream.model, read.tokens, read.mask, replaced), untouched, read.tokens, read.mask
        )
