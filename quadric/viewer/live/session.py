"""The dictionaries that a live server knows, and what can be asked of them; every answer is plain values."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.data import LanguageModel
from quadric.explanations import Explainer, Reading
from quadric.explanations.reading import words_of
from quadric.interventions import Intervention, Latent
from quadric.interventions.in_model import edit_activations, intervene
from quadric.interventions.latents import clamp
from quadric.model import Dictionary
from quadric.viewer.live.worker import Job

LONGEST_TEXT = 1024
"""Tokens of a text."""
LONGEST_PROMPT = 256
MOST_NEW_TOKENS = 40
MOST_TOP = 50
SHOWN_NEXT = 10
KEPT_READINGS = 16
KEPT_LATENTS = 64
LONGEST_SLIDE = 2 * math.pi


class RequestError(ValueError):
    """A request that cannot be answered, with the reason."""


class Continuation(NamedTuple):
    """What the model says next."""

    token_ids: list[int]
    """The most likely token each time; ends before the end of the text."""
    next_log_probabilities: Float[Tensor, " v"]
    """Of the first token after the prompt."""


class NextToken(NamedTuple):
    """One bar of the picture: a token and its probability with and without the intervention."""

    token_id: int
    plain: float
    steered: float


class Session:
    """One language model, and the dictionaries that read it, by their names on the site.

    All methods run the model, so only the worker's thread calls them.
    """

    def __init__(self, explainers: Mapping[str, Explainer]) -> None:
        if not explainers:
            raise ValueError("there is no dictionary to serve; give a run with an autoencoder")
        self.explainers = dict(explainers)
        self.model: LanguageModel = next(iter(explainers.values())).reader.model
        # The page asks for the same ones again and again: all of them while the slider moves.
        self._reading = lru_cache(KEPT_READINGS)(self._read)
        self._latent = lru_cache(KEPT_LATENTS)(lambda name, number: _latent(self.explainers[name], number))
        self._plain: tuple[list[int], int, Continuation] | None = None
        self.methods: dict[str, Callable[[Mapping[str, Any], Job], dict[str, Any]]] = {
            "explain": self.explain,
            "stars": self.stars,
            "steer": self.steer,
        }

    def status(self) -> dict[str, Any]:
        """What the page must know before it asks."""
        return {
            "model": self.model.name,
            "dictionaries": list(self.explainers),
            "longest_text": LONGEST_TEXT,
            "longest_prompt": LONGEST_PROMPT,
            "most_new_tokens": MOST_NEW_TOKENS,
        }

    def explain(self, request: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The strongest latents of every token: {dictionary, text, top}."""
        name, explainer = self._explainer(request)
        reading = self._reading(name, _text(request))
        job.check()
        found = explainer.explanation_of(reading, _whole(request, "top", 1, MOST_TOP, 8))
        return asdict(found)

    def stars(self, request: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The tokens of a text in the frame of one latent, one list per axis: {dictionary, text, latent, axes}."""
        name, explainer = self._explainer(request)
        latent = _whole(request, "latent", 0, explainer.autoencoder.n_latents - 1)
        reading = self._reading(name, _text(request))
        job.check()
        found = explainer.coordinates(reading, latent, _whole(request, "axes", 1, 64, 8))
        values = explainer.values(reading.vectors)[:, latent]
        return {
            "words": reading.words,
            "tokens": reading.kept,
            "values": [float(value) for value in values],
            "coordinates": found.axes.T.tolist(),
            "linear": found.linear.tolist(),
            "control": found.control.T.tolist(),
        }

    def steer(self, request: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """Continue a text with and without an intervention on one latent.

        {dictionary, text, latent, kind: project|slide|ablate, amount, axes, where: all|last, tokens}
        """
        name, explainer = self._explainer(request)
        number = _whole(request, "latent", 0, explainer.autoencoder.n_latents - 1)
        wanted = _whole(request, "tokens", 1, MOST_NEW_TOKENS, 20)
        prompt, first = self._prompt(explainer, _text(request))
        start = len(prompt) - 1 if request.get("where") == "last" else first
        with_change = self._with_change(request, name, number, slice(start, None))
        if self._plain is None or self._plain[:2] != (prompt, wanted):
            found = continuation(self.model, prompt, wanted, lambda done: job.report(done, 2 * wanted))
            self._plain = prompt, wanted, found
        plain = self._plain[2]
        with with_change:
            steered = continuation(self.model, prompt, wanted, lambda done: job.report(wanted + done, 2 * wanted))
        return {
            "plain": self._words(plain),
            "steered": self._words(steered),
            "next": [
                {"text": self._word(each.token_id), "plain": each.plain, "steered": each.steered}
                for each in next_tokens(plain, steered, SHOWN_NEXT)
            ],
            "divergence": _divergence(plain, steered),
        }

    def _with_change(
        self, request: Mapping[str, Any], name: str, number: int, positions: slice
    ) -> AbstractContextManager[Any]:
        """A block in which the model runs with the intervention that is asked for."""
        explainer = self.explainers[name]
        if explainer.autoencoder.is_linear:
            change = _clamped(request, explainer.autoencoder, number)
            at, d_model = explainer.reader.point, explainer.autoencoder.d_model
            return edit_activations(self.model, at, change, d_model, positions=positions)
        intervention = _intervention(request, self._latent(name, number), float(explainer.signs()[number]))
        return intervene(self.model, intervention, positions=positions, check_model=False)

    def _explainer(self, request: Mapping[str, Any]) -> tuple[str, Explainer]:
        name = request.get("dictionary")
        if not isinstance(name, str) or name not in self.explainers:
            raise RequestError(f"there is no live dictionary {name!r}; choose from {', '.join(self.explainers)}")
        return name, self.explainers[name]

    def _read(self, name: str, text: str) -> Reading:
        n_tokens = len(self.model.tokenizer.encode([text])[0])
        if n_tokens > LONGEST_TEXT:
            raise RequestError(
                f"the text has {n_tokens:,} tokens, and the page reads up to {LONGEST_TEXT:,}; shorten it, or use "
                "quadric explain, which has no such limit"
            )
        (reading,) = self.explainers[name].reader.read([text])
        return reading

    def _prompt(self, explainer: Explainer, text: str) -> tuple[list[int], int]:
        """The tokens of a prompt, and the position of the first that is part of it."""
        before = [] if explainer.reader.first is None else [explainer.reader.first]
        ids = self.model.tokenizer.encode([text])[0]
        if not 0 < len(ids) <= LONGEST_PROMPT:
            raise RequestError(
                f"the prompt has {len(ids):,} tokens; give 1 to {LONGEST_PROMPT}, since it is read again for every "
                "position of the slider"
            )
        return before + ids, len(before)

    def _words(self, found: Continuation) -> str:
        return "".join(words_of(self.model.tokenizer, found.token_ids))

    def _word(self, token: int) -> str:
        return words_of(self.model.tokenizer, [token])[0]


def _latent(explainer: Explainer, number: int) -> Latent:
    """A latent about the centre of the tokens, where evidence knows it."""
    known = explainer.evidence
    centre = None if known is None else torch.from_numpy(known.calibration.centre.copy())
    return Latent(explainer.autoencoder, number, centre)


def _intervention(request: Mapping[str, Any], latent: Latent, sign: float) -> Intervention:
    """What the request asks for; amounts are in sign·z, as the site shows it."""
    kind = request.get("kind")
    if kind == "ablate":
        return latent.ablate()
    amount = _amount(request)
    if kind == "project":
        return latent.project(to=sign * amount, unreachable="nearest")
    if kind != "slide":
        raise RequestError(f"kind={kind!r} is unknown; choose project, slide or ablate")
    if abs(amount) > LONGEST_SLIDE:
        raise RequestError(f"amount={amount} is beyond a full turn; give at most {LONGEST_SLIDE:.2f}")
    axes = request.get("axes", [0, 1])
    if not isinstance(axes, list) or len(axes) != 2 or not all(isinstance(axis, int) for axis in axes):
        raise RequestError(f"axes={axes!r} are not two numbers of axes; give e.g. [0, 1]")
    return latent.slide(by=amount, axes=(axes[0], axes[1]))


def _clamped(request: Mapping[str, Any], autoencoder: Dictionary, latent: int) -> Callable[[Tensor], Tensor]:
    """The same for a direction, whose activation is held at the amount; it has no level set to slide along."""
    kind = request.get("kind")
    if kind not in ("project", "ablate"):
        raise RequestError(f"kind={kind!r} is not offered for a direction; choose project, which clamps z, or ablate")
    return clamp(autoencoder, latent, 0.0 if kind == "ablate" else _amount(request))


def _amount(request: Mapping[str, Any]) -> float:
    amount = request.get("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        raise RequestError(f"amount={amount!r} is not a number; give the value of z, or how far to slide")
    return float(amount)


def _text(request: Mapping[str, Any]) -> str:
    text = request.get("text")
    if not isinstance(text, str) or not text.strip():
        raise RequestError("there is no text; give at least one word")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError("the text is not valid Unicode (half of a surrogate pair)")
    return text


def _whole(request: Mapping[str, Any], name: str, least: int, most: int, default: int | None = None) -> int:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(f"{name}={value!r} is not a whole number from {least} to {most}")
    return value


def _divergence(plain: Continuation, steered: Continuation) -> float:
    """KL(plain ‖ steered) of the next token, in bits."""
    before, after = plain.next_log_probabilities.double(), steered.next_log_probabilities.double()
    return float((before.exp() * (before - after)).sum() / math.log(2))


@torch.no_grad()
def continuation(
    model: LanguageModel,
    token_ids: Sequence[int],
    n_tokens: int,
    on_token: Callable[[int], None] = lambda done: None,
) -> Continuation:
    """The most likely continuation of a prompt, and the distribution of its first token.

    `on_token` is called with the number of tokens generated so far, after every token; it may raise to stop.
    """
    ends = {model.tokenizer.separator, model.tokenizer.hf.eos_token_id} - {None}
    tokens, cache, found = torch.tensor([list(token_ids)], device=model.device), None, list[int]()
    first: Tensor | None = None
    for done in range(n_tokens):
        output = model.causal(input_ids=tokens, past_key_values=cache, use_cache=True)
        logits, cache = output.logits[0, -1].float().cpu(), output.past_key_values
        first = logits.log_softmax(-1) if first is None else first
        token = int(logits.argmax())
        on_token(done + 1)
        if token in ends:
            break
        found.append(token)
        tokens = torch.tensor([[token]], device=model.device)
    assert first is not None
    return Continuation(found, first)


def next_tokens(plain: Continuation, steered: Continuation, count: int) -> list[NextToken]:
    """The most likely next tokens of either side, by the larger probability."""
    both = [each.next_log_probabilities.exp() for each in (plain, steered)]
    order = torch.maximum(*both).argsort(descending=True, stable=True)[:count].tolist()
    return [NextToken(token, float(both[0][token]), float(both[1][token])) for token in order]
