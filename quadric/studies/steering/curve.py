"""`quadric.steering_curve`: what steering by a latent does to predictions, what it costs, and how baselines compare.

Half of the prompts choose the dose of each baseline, so that its effect there equals that of the quadric; all numbers
are of the other half. Who chooses and who reports is drawn for each seed, and so are the random baselines and the
sampled continuations.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric._io.records import check_choice
from quadric.data.forward import predictions, replace_at
from quadric.data.hook_points import HookPoint, HookPointError, parse_hook_point
from quadric.data.models import LanguageModel, model_in_memory
from quadric.data.provenance import check_same_model
from quadric.data.sources import ActivationsInMemory
from quadric.evaluation.record import Predictions, PredictionSums
from quadric.evidence import Evidence
from quadric.interventions.latents import Latent
from quadric.model import Dictionary, Provenance
from quadric.model.linear import LinearAutoencoder
from quadric.studies.steering.measures import CorpusSpace, LatentTokens, divergence, hellinger, latent_tokens, mass
from quadric.studies.steering.methods import Change, Method, baselines, firing, quadric_path
from quadric.studies.steering.reading import (
    Prompts,
    continuation_cross_entropy,
    continuations,
    encode_prompts,
    next_token,
    recorded,
    steered,
    text_tokens,
)
from quadric.studies.steering.results import MATCHES, NONE, Match, SteeringCurve, SteeringRow

FEWEST_PROMPTS = 4
N_TEXTS = 4
"""Unrelated texts that each seed draws."""
TEXT_LENGTH = 32
"""Tokens of each that are read."""
QUANTILES = (0.95, 0.99, 0.999)


def steering_curve(
    model: Any,
    latent: Latent,
    evidence: Evidence,
    prompts: Sequence[str],
    *,
    corpus: Any,
    texts: Sequence[str],
    to: float | Sequence[float] | None = None,
    topk: Dictionary | None = None,
    match: Match | Sequence[Match] = "hellinger",
    seeds: Sequence[int] = (0, 1, 2),
    new_tokens: int = 16,
    tokenizer: Any = None,
    hook_point: str | int | None = None,
    check_model: bool = True,
    on_progress: Progress = no_progress,
) -> SteeringCurve:
    """Dose and response of steering by one latent: effect, damage, and five baselines at equal effect.

    Steering acts at all positions but the first of each sequence.

    Args:
        model: A `transformers` causal language model in memory, or a `LanguageModel`.
        latent: Such as `ae.latent(214)`.
        evidence: Of its dictionary; gives the tokens on which the latent fires, and its value at rest.
        prompts: At least four. Half of them choose the doses, the other half report.
        corpus: Activations of a corpus at the hook point, (n, d) or from `quadric.harvest`; n well above d.
        texts: Unrelated texts, on which the damage is measured.
        to: Values of z, with the sign of the weights, to which the quadric steers; by default the quantiles 0.95, 0.99
            and 0.999 of the side on which the latent fires.
        topk: A linear dictionary of the same hook point, for the baseline that clamps its best latent.
        match: The effect, or several, that the baselines are matched by: the distance of predictions, or the gain of
            the latent's own or following tokens.
        seeds: Each draws prompts, texts, random baselines and continuations.
        new_tokens: Length of the sampled continuations.
        tokenizer: Of a model in memory.
        hook_point: Where to steer; by default where the dictionary was trained.
        check_model: Whether to refuse a model that is not the one of the dictionary.
        on_progress: Called after every measurement.

    Returns:
        One row for each method, value and seed; `summaries()` averages over seeds.

    Example:
        >>> prompts = ["Monday comes after", "All happy families", "And then comes", "Sunday is"]
        >>> texts = ["All happy families are alike.", "Monday comes after Sunday."]
        >>> curve = quadric.steering_curve(
        ...     model, ae.latent(3), evidence, prompts, corpus=acts, texts=texts, to=0.5, seeds=[0], tokenizer=tokenizer
        ... )
        >>> [row.method for row in curve.rows][:4]
        ['none', 'quadric', 'leading eigenvector', 'difference of means']
        >>> table = curve.summaries()
    """
    loaded = model if isinstance(model, LanguageModel) else model_in_memory(model, tokenizer)
    point = writable_point(loaded, latent.autoencoder.provenance, hook_point, check_model)
    matches: list[Match] = [match] if isinstance(match, str) else list(match)
    _check_settings(prompts, seeds, matches, new_tokens)
    evidence.check_weights(latent.autoencoder)
    values = _targets(latent, evidence, to)
    study = _Study(loaded, point, latent, evidence, _rows(corpus, latent.autoencoder.d_model), texts, new_tokens)
    linear = _linear(topk, latent)
    rows: list[SteeringRow] = []
    total = len(seeds) * (1 + len(values) * (1 + len(matches) * (4 + (linear is not None))))
    for seed in seeds:
        for row in study.rows(list(prompts), values, matches, linear, seed):
            rows.append(row)
            on_progress("measurements", len(rows), total, "")
    shown = study.tokens(max(values, key=abs))
    own, following = ([loaded.tokenizer.decode(token) for token in each] for each in shown)
    return SteeringCurve(latent=latent.index, own=own, following=following, rows=rows)


def dose_for(doses: Sequence[float], effects: Sequence[float], target: float) -> float | None:
    """The smallest dose at which the effect, taken as linear between the measured doses, equals the target.

    Args:
        doses: Ascending.
        effects: Measured at each.
        target: The wanted effect.

    Returns:
        The dose; None if the target is not positive, or never reached.

    Example:
        >>> dose_for([0.0, 1.0, 3.0], [0.0, 0.1, 0.3], 0.2)
        2.0
    """
    if target <= 0:
        return None
    for index, (dose, effect) in enumerate(zip(doses, effects, strict=True)):
        if effect >= target:
            if index == 0:
                return float(dose)
            before, low = doses[index - 1], effects[index - 1]
            return float(before + (dose - before) * (target - low) / (effect - low))
    return None


class _Effect(NamedTuple):
    """Means over prompts."""

    hellinger: float
    divergence: float
    own: float
    following: float


NO_EFFECT = _Effect(0.0, 0.0, 0.0, 0.0)


class _Study:
    """One latent, with all that its measurements need."""

    def __init__(
        self,
        model: LanguageModel,
        point: HookPoint,
        latent: Latent,
        evidence: Evidence,
        corpus: Float[Tensor, "n d"],
        texts: Sequence[str],
        new_tokens: int,
    ) -> None:
        self.model, self.point, self.latent, self.evidence = model, point, latent, evidence
        self.corpus, self.new_tokens = corpus, new_tokens
        self.space = CorpusSpace(corpus)
        self.texts = text_tokens(model, texts, TEXT_LENGTH)
        self.known: dict[bool, LatentTokens] = {}

    def tokens(self, to: float) -> LatentTokens:
        """The latent's tokens on the side of a value."""
        rest = _rest(self.evidence, self.latent.index)
        above = to >= rest
        if above not in self.known:
            config: Any = self.model.causal.config
            size = min(int(config.get_text_config().vocab_size), len(self.model.tokenizer.hf))
            self.known[above] = latent_tokens(self.evidence, self.latent.index, self.model.tokenizer, size, to)
        return self.known[above]

    def rows(
        self,
        texts: list[str],
        values: Sequence[float],
        matches: Sequence[Match],
        topk: LinearAutoencoder | None,
        seed: int,
    ) -> Iterable[SteeringRow]:
        """All rows of one seed."""
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
        half = len(texts) // 2
        choosing, reporting = (
            _Asked(self.model, self.point, [texts[number] for number in numbers])
            for numbers in (order[:half], order[half:])
        )
        unrelated = self.drawn_texts(seed)
        quadric = quadric_path(self.latent)
        wanted = [self.effect(quadric.at(to), choosing, to) for to in values]  # first, since a value may be unreachable
        yield self.measured(_Dose(NONE, None, None, None), reporting, unrelated, seed)
        effects: dict[str, list[_Effect]] = {}
        for to, target in zip(values, wanted, strict=True):
            own = _Dose(quadric.name, to, None, to)
            yield self.measured(own, reporting, unrelated, seed, quadric.at(to))
            for method in self.baselines(to, seed, topk):
                tried = self.tried(method, choosing, to, effects)
                for match in matches:
                    found = dose_for(method.doses, [getattr(each, match) for each in tried], getattr(target, match))
                    dose = _Dose(method.name, to, match, found)
                    change = None if found is None else method.at(found)
                    yield self.measured(dose, reporting, unrelated, seed, change)

    def baselines(self, to: float, seed: int, topk: LinearAutoencoder | None) -> list[Method]:
        rest = _rest(self.evidence, self.latent.index)
        rms = float(self.evidence.statistics.mean_square[self.latent.index]) ** 0.5
        fires = firing(self.latent, self.corpus, rest, self.evidence.settings.firing_rms * rms, to)
        return baselines(self.latent, self.corpus, fires, to, seed, topk)

    def tried(self, method: Method, choosing: "_Asked", to: float, known: dict[str, list[_Effect]]) -> list[_Effect]:
        """Effects at the method's doses; a fixed direction is tried once for all values on one side."""
        side = to >= _rest(self.evidence, self.latent.index)
        key = f"{method.name} {side}" if method.name != "random quadric" else f"{method.name} {to}"
        if key not in known:
            tried = method.doses[1:] if method.zero_is_nothing else method.doses
            nothing = [NO_EFFECT] if method.zero_is_nothing else []
            known[key] = nothing + [self.effect(method.at(dose), choosing, to) for dose in tried]
        return known[key]

    def effect(self, change: Change | None, asked: "_Asked", to: float) -> _Effect:
        """How predictions of the next token change."""
        with steered(self.model, self.point, change, asked.known):
            now = next_token(self.model, asked.prompts)
        before, tokens = asked.unmodified, self.tokens(to)
        gains = (mass(now, each) - mass(before, each) for each in tokens)
        return _Effect(*(float(each.mean()) for each in (hellinger(before, now), divergence(before, now), *gains)))

    def measured(
        self, dose: "_Dose", asked: "_Asked", unrelated: "_Texts", seed: int, change: Change | None = None
    ) -> SteeringRow:
        """One row; nothing is measured for a method that no dose makes equal to the quadric."""
        if change is None and dose.method != NONE:
            return SteeringRow(**dose._asdict(), seed=seed)
        effect = NO_EFFECT if dose.to is None else self.effect(change, asked, dose.to)
        text = self.on_texts(change, unrelated)
        with steered(self.model, self.point, change):
            new = continuations(self.model, asked.prompts, self.new_tokens, seed)
        distances = self.space.distances(asked.read if change is None else change(asked.read))
        return SteeringRow(
            **dose._asdict(),
            seed=seed,
            **effect._asdict(),
            text_divergence=text.divergence,
            text_cross_entropy=text.cross_entropy,
            perplexity=float(continuation_cross_entropy(self.model, asked.prompts, new).mean().exp()),
            mahalanobis=float(distances.mahalanobis.mean()),
            nearest=float(distances.nearest.mean()),
        )

    def drawn_texts(self, seed: int) -> "_Texts":
        """The texts that the seed draws, with what the unmodified model predicts."""
        order = torch.randperm(len(self.texts), generator=torch.Generator().manual_seed(seed))
        tokens = self.texts[order[:N_TEXTS].to(self.texts.device)]
        with recorded(self.model, self.point) as known:
            unmodified = predictions(self.model, tokens)
        return _Texts(tokens, unmodified, known[0])

    def on_texts(self, change: Change | None, texts: "_Texts") -> Predictions:
        """Divergence, and increase of the cross-entropy, per token."""
        mask = torch.ones_like(texts.tokens, dtype=torch.bool)
        with steered(self.model, self.point, change, texts.known):
            now = texts.unmodified if change is None else predictions(self.model, texts.tokens)
        before, after = PredictionSums(), PredictionSums()
        before.add(texts.unmodified, texts.unmodified, texts.tokens, mask)
        after.add(now, texts.unmodified, texts.tokens, mask)
        increase = after.mean().cross_entropy - before.mean().cross_entropy
        return Predictions(increase, after.mean().divergence)


class _Dose(NamedTuple):
    """What is done, and how it was chosen; as in `SteeringRow`."""

    method: str
    to: float | None
    match: Match | None
    dose: float | None


class _Texts(NamedTuple):
    """Unrelated texts, with what the unmodified model predicts."""

    tokens: Int[Tensor, "s l"]
    unmodified: Float[Tensor, "s l v"]
    known: Float[Tensor, "s l d"]
    """Activations at the hook point."""


class _Asked:
    """Prompts, with what the unmodified model predicts after them."""

    def __init__(self, model: LanguageModel, point: HookPoint, texts: list[str]) -> None:
        self.prompts: Prompts = encode_prompts(model, texts)
        with recorded(model, point) as known:
            self.unmodified = next_token(model, self.prompts)
        self.known = known[0]
        """Activations at the hook point, padding included."""
        self.read = self.known[self.prompts.mask & (self.prompts.positions > 0)]
        """Those that steering changes."""


def writable_point(
    model: LanguageModel, provenance: Provenance, hook_point: str | int | None = None, check_model: bool = True
) -> HookPoint:
    """The hook point of a dictionary in its model; raises if the model is another, or the point cannot be written."""
    name = provenance.hook_point if hook_point is None else str(hook_point)
    if name is None:
        raise HookPointError(
            "the dictionary does not record its hook point, since it was trained on rows; give e.g. "
            "hook_point='resid_pre.15'"
        )
    if check_model:
        check_same_model(model, provenance)
    point = parse_hook_point(name, model.n_layers)
    replace_at(model.layers, point, lambda hidden: hidden).remove()  # raises where activations cannot be written
    return point


def _check_settings(prompts: Sequence[str], seeds: Sequence[int], matches: Sequence[Match], new_tokens: int) -> None:
    for match in matches:
        check_choice("match", match, MATCHES)
    if isinstance(prompts, str) or len(set(prompts)) < FEWEST_PROMPTS:
        count = 1 if isinstance(prompts, str) else len(set(prompts))
        raise ValueError(
            f"{count} different prompts are too few: half choose the dose and half report; give at least "
            f"{FEWEST_PROMPTS}"
        )
    if not seeds:
        raise ValueError("no seed was given; give at least one, e.g. seeds=[0, 1, 2]")
    if new_tokens < 1:
        raise ValueError(f"new_tokens={new_tokens} is not positive; give e.g. 16")


def _rest(evidence: Evidence, latent: int) -> float:
    """Value at rest, with the sign of the weights."""
    return float(evidence.calibration.signs[latent]) * float(evidence.calibration.rest[latent])


def _targets(latent: Latent, evidence: Evidence, to: float | Sequence[float] | None) -> list[float]:
    if to is not None:
        values = [to] if isinstance(to, int | float) else list(to)
        if not values or not all(isinstance(each, int | float) and torch.tensor(each).isfinite() for each in values):
            raise ValueError(f"to={to!r} has no finite values of z; give e.g. 0.5, or leave it out for quantiles")
        return [float(each) for each in values]
    sign, statistics = float(evidence.calibration.signs[latent.index]), evidence.statistics
    known = dict(zip(statistics.probabilities, statistics.quantiles[latent.index].tolist(), strict=True))
    return [sign * known[each] for each in QUANTILES if each in known]


def _rows(corpus: Any, d_model: int) -> Float[Tensor, "n d"]:
    vectors = corpus.vectors if isinstance(corpus, ActivationsInMemory) else corpus
    if not isinstance(vectors, Tensor) or vectors.ndim != 2 or vectors.shape[1] != d_model:
        shape = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
        raise ValueError(f"corpus is {shape}; give activations (n, {d_model}), e.g. from quadric.harvest")
    return vectors


def _linear(topk: Dictionary | None, latent: Latent) -> LinearAutoencoder | None:
    if topk is None:
        return None
    if not isinstance(topk, LinearAutoencoder) or topk.d_model != latent.autoencoder.d_model:
        raise ValueError(
            f"topk is a {type(topk).__name__} of width {topk.d_model}; give a TopK or BatchTopK dictionary of width "
            f"{latent.autoencoder.d_model}"
        )
    own, other = latent.autoencoder.provenance.hook_point, topk.provenance.hook_point
    if None not in (own, other) and own != other:
        raise ValueError(f"topk reads {other} and the latent {own}; give a TopK dictionary of {own}")
    return topk.eval()
