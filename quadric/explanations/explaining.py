"""`quadric.explain`: the strongest latents of every token of a text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Float64
from torch import Tensor

from quadric.data.models import LanguageModel, find_model, load_model, model_in_memory
from quadric.data.provenance import check_same_model
from quadric.evidence import Evidence
from quadric.evidence.reservoir import control_frame
from quadric.explanations.reading import Reading, TextReader
from quadric.explanations.record import Explanation, Firing, TextLatent, Token, TokenLatent
from quadric.geometry.centring import as_read, prepared
from quadric.geometry.kernels import reconstruction_gram
from quadric.geometry.quadrics import latent_frame
from quadric.model import Dictionary

Array = np.ndarray

DEFAULT_TOP = 5
MOST_LATENTS = 24
"""Latents of a whole text that are listed."""
TOKENS_AT_ONCE = 256
RANKING = (
    "share of the token's rebuilt energy · log₂(0.5 / p), with p the share of the evidence's tokens at least as far "
    "out on the same side of the latent's own distribution (no smaller than 0.1 %)"
)
RANKING_WITHOUT_EVIDENCE = (
    "share of the token's rebuilt energy alone: without evidence, neither how unusual a value is for its latent nor "
    "the latent's label is known"
)


def explain(
    autoencoder: Dictionary,
    text: str,
    evidence: Evidence | None = None,
    *,
    top: int = DEFAULT_TOP,
    model: Any = None,
    tokenizer: Any = None,
    device: str = "auto",
    check_model: bool = True,
) -> Explanation:
    """The strongest latents of every token of a text, and where in it each latent fires.

    Latents are ranked against their own distribution: strength is the latent's share of the token's rebuilt energy
    times the bits by which its value is rarer than its median. A value that is rare but rebuilds nothing of the token,
    and a large one that the latent has on every token, both rank low. Without evidence only the share is known.

    Args:
        autoencoder: A dictionary of a language model, bilinear or linear.
        text: Read as the dictionary's training text was: in blocks, after the separator between documents, without
            special tokens and attention sinks. For several, `quadric.explanations.Explainer` keeps the model.
        evidence: What data says about the latents, from `collect_evidence` or `Evidence.load`: quantiles and labels.
        top: Latents per token.
        model: The language model: a name, a folder, or a `transformers` model in memory; by default the one that the
            dictionary records.
        tokenizer: Tokenizer of a model in memory.
        device: Device of a model that is loaded here.
        check_model: Whether to refuse a model that is not the one of the dictionary.

    Returns:
        The explanation.

    Example:
        >>> found = quadric.explain(ae, "Monday comes after Sunday", evidence, top=3)
        >>> first = found.tokens[0]
        >>> first.text, len(first.latents)
        ('M', 3)
        >>> label = first.latents[0].label
    """
    loaded = language_model_of(autoencoder, model, tokenizer, device)
    if check_model:
        check_same_model(loaded, autoencoder.provenance)
    explainer = Explainer(autoencoder, loaded, evidence)
    was_training = loaded.causal.training
    loaded.causal.eval()
    try:
        return explainer.explain([text], top)[0]
    finally:
        loaded.causal.train(was_training)


def language_model_of(autoencoder: Dictionary, model: Any, tokenizer: Any, device: str) -> LanguageModel:
    """The model that was given, or the one that the dictionary records, ready for forward passes."""
    if isinstance(model, LanguageModel):
        return model
    if model is not None and not isinstance(model, str):
        return model_in_memory(model, tokenizer)
    if tokenizer is not None:
        raise ValueError(
            "tokenizer= is for a model in memory; a model that is loaded by name has its own, leave it out"
        )
    name = model or autoencoder.provenance.model
    if name is None:
        raise ValueError("the autoencoder does not record its language model; name it with model= (--model)")
    return load_model(find_model(name), device=device)


class Explainer:
    """Explains texts by the latents of one dictionary; keeps the language model and the kernel between texts.

    Args:
        autoencoder: Any dictionary.
        model: Its language model.
        evidence: What data says about its latents.

    Example:
        >>> from quadric.data import find_model, load_model
        >>> from quadric.explanations import Explainer
        >>> explainer = Explainer(ae, load_model(find_model("my-model")), evidence)
        >>> found = explainer.explain(["Monday comes", "and then comes Tuesday"], top=3)
        >>> [len(each.tokens) for each in found]
        [12, 22]
    """

    def __init__(self, autoencoder: Dictionary, model: LanguageModel, evidence: Evidence | None = None) -> None:
        self.autoencoder = autoencoder
        if evidence is not None:
            evidence.check_weights(autoencoder)
        self.reader = TextReader(model, self.autoencoder)
        self.evidence = evidence
        self.kernel = reconstruction_gram(autoencoder).float().cpu()

    def explain(self, texts: Sequence[str], top: int = DEFAULT_TOP) -> list[Explanation]:
        """Explain some texts, with the strongest `top` latents of every token; see `quadric.explain`."""
        if top < 1:
            raise ValueError(f"top={top} is not positive; give how many latents to show per token")
        return [self.explanation_of(reading, top) for reading in self.reader.read(texts)]

    def explanation_of(self, reading: Reading, top: int = DEFAULT_TOP) -> Explanation:
        """Explain a text that was read before."""
        strongest: dict[int, list[TokenLatent]] = {}
        firings: dict[int, list[Firing]] = {}
        for start in range(0, len(reading.kept), TOKENS_AT_ONCE):
            self._add_tokens(reading, slice(start, start + TOKENS_AT_ONCE), top, strongest, firings)
        read = zip(reading.words, reading.token_ids, reading.dropped, strict=True)
        tokens = [
            Token(text=text, token_id=number, dropped=why, latents=strongest.get(place, []))
            for place, (text, number, why) in enumerate(read)
        ]
        latents = [
            TextLatent(
                latent=latent,
                label="" if self.evidence is None else self.evidence.labels.of(latent),
                strength=sum(firing.strength for firing in where),
                firings=where,
            )
            for latent, where in firings.items()
        ]
        return Explanation(
            text=reading.text,
            tokens=tokens,
            latents=sorted(latents, key=lambda each: -each.strength)[:MOST_LATENTS],
            ranking=RANKING_WITHOUT_EVIDENCE if self.evidence is None else RANKING,
            notes=self._notes(reading),
        )

    def coordinates(self, reading: Reading, latent: int, n_axes: int) -> "TokenCoordinates":
        """Kept tokens in the frame of one latent, about the centre, as the points of its site are."""
        if self.evidence is None:
            raise ValueError("without evidence there is no picture to place tokens in; collect it with quadric site")
        known = self.evidence.calibration
        frame = latent_frame(self.autoencoder, latent, n_axes, known.tokens_centre())
        given = prepared(self.autoencoder, reading.vectors)
        v = frame.centring.coordinates(as_read(self.autoencoder, given).double().cpu())
        shown = (v @ frame.axes).float().numpy()
        random = control_frame(self.autoencoder.d_model, self.evidence.settings.seed).double()
        return TokenCoordinates(
            axes=np.asarray(np.pad(shown, ((0, 0), (0, n_axes - shown.shape[1])))),
            linear=np.asarray((v @ torch.from_numpy(np.array(known.linear[latent])).double()).float().numpy()),
            control=np.asarray((v @ random).float().numpy()),
        )

    def values(self, vectors: Tensor) -> Float32[Array, "m k"]:
        """sign·z of activations, as sites show it."""
        with torch.no_grad():
            found = self.autoencoder.encode(prepared(self.autoencoder, vectors)).float().cpu()
        return np.asarray(found.numpy() * self.signs())

    def signs(self) -> Float32[Array, " k"]:
        """By which z is multiplied before it is shown."""
        if self.evidence is None:
            return np.ones(self.autoencoder.n_latents, dtype=np.float32)
        return np.asarray(self.evidence.calibration.signs)

    def _add_tokens(
        self,
        reading: Reading,
        some: slice,
        top: int,
        strongest: dict[int, list[TokenLatent]],
        firings: dict[int, list[Firing]],
    ) -> None:
        """Add the strongest latents of some kept tokens, by token, and all that fire on them, by latent."""
        places = reading.kept[some]
        values = self.values(reading.vectors[some])
        share = energy_shares(torch.from_numpy(values * self.signs()), self.kernel).numpy()
        quantiles, strength = None, share
        if self.evidence is None:
            away = np.zeros_like(share, dtype=bool)
            np.put_along_axis(away, np.argsort(-share, axis=1)[:, :DEFAULT_TOP], True, axis=1)
        else:
            known, rest = self.evidence.statistics, self.evidence.calibration.rest
            quantiles = quantiles_of(values, np.asarray(known.quantiles), known.probabilities)
            strength = share.clip(min=0) * surprise(quantiles)
            away = np.abs(values - rest) > self.evidence.settings.firing_rms * np.sqrt(known.mean_square)
        order = np.argsort(-strength, axis=1, kind="stable")
        fires = np.take_along_axis(away, order, axis=1)
        wanted = fires.copy()
        wanted[:, :top] = True
        for row, rank in zip(*(each.tolist() for each in wanted.nonzero()), strict=True):
            place, latent = places[row], int(order[row, rank])
            numbers: dict[str, Any] = {
                "value": float(values[row, latent]),
                "quantile": None if quantiles is None else float(quantiles[row, latent]),
                "share": float(share[row, latent]),
                "strength": float(strength[row, latent]),
            }
            if rank < top:
                label = self.side_label(latent, numbers["value"])
                strongest.setdefault(place, []).append(TokenLatent(latent=latent, label=label, **numbers))
            if fires[row, rank]:
                firings.setdefault(latent, []).append(Firing(token=place, **numbers))

    def side_label(self, latent: int, value: float) -> str:
        """Name of the side of a latent on which a value lies."""
        if self.evidence is None:
            return ""
        labels, rest = self.evidence.labels, float(self.evidence.calibration.rest[latent])
        if labels.from_model is not None and latent in labels.from_model.texts:
            return labels.of(latent)
        if value < rest:
            return f"− {' · '.join(labels.negative[latent]) or f'({labels.of(latent)})'}"
        # The whole label may have further words that tell the latent from others with the same tokens.
        is_positive_only = " ↔ " not in labels.of(latent) and not labels.of(latent).startswith("− ")
        return labels.of(latent) if is_positive_only else " · ".join(labels.positive[latent]) or labels.of(latent)

    def _notes(self, reading: Reading) -> list[str]:
        notes = []
        if self.evidence is None:
            notes.append(
                "no evidence was given: there are no quantiles and labels, and latents are ranked by share alone"
            )
        if reading.n_blocks > 1:
            notes.append(
                f"the text was read in {reading.n_blocks} blocks of up to {self.reader.block_length} tokens, as in "
                "training; a block does not see the one before it"
            )
        if sinks := sum(why is not None for why in reading.dropped):
            notes.append(f"{sinks} special tokens and attention sinks are not explained; training drops them too")
        return notes


class TokenCoordinates(NamedTuple):
    """Tokens in the frame of one latent."""

    axes: Float32[Array, "m a"]
    """v·axis; 0 beyond the latent's axes."""
    linear: Float32[Array, " m"]
    """v·l on the latent's best linear predictor."""
    control: Float32[Array, "m 3"]
    """v·q on the random frame that all latents share."""


def energy_shares(latents: Tensor, kernel: Tensor) -> Tensor:
    """Each latent's share of the energy of the rebuilt token, z_i (Kz)_i / zᵀKz, since ‖Σ z_i W_i‖² = zᵀKz.

    For a linear dictionary it is ‖Σ z_i d_i‖², the reconstruction without the decoder's bias.
    """
    parts = latents * (latents @ kernel)
    total = parts.sum(-1, keepdim=True)
    return torch.where(total > 0, parts / torch.where(total > 0, total, 1), 0)


def quantiles_of(
    values: Float32[Array, "n k"], stored: Float32[Array, "k q"], probabilities: Sequence[float]
) -> Float64[Array, "n k"]:
    """Share of tokens with a smaller value, for every token and latent, from values `stored` at some probabilities.

    Between two stored quantiles the log-odds log(p / (1 − p)) are linear in the value, which follows the tails better
    than p itself. Beyond the outermost ones nothing is known but the bound, so shares stay within 0.1 % … 99.9 %. Where
    stored values are equal, a value on them has the middle of their probabilities.
    """
    odds = np.log(np.asarray(probabilities)) - np.log1p(-np.asarray(probabilities))
    below = _interpolated(values, stored, odds, (values[..., None] > stored).sum(-1))
    above = _interpolated(values, stored, odds, (values[..., None] >= stored).sum(-1))
    return np.asarray(1 / (1 + np.exp(-(below + above) / 2)))


def _interpolated(values: Array, stored: Array, odds: Array, reached: Array) -> Array:
    """Log-odds between the last of the `reached` quantiles and the next one."""
    low, high = np.clip(reached - 1, 0, len(odds) - 1), np.clip(reached, 0, len(odds) - 1)
    latents = np.arange(stored.shape[0])
    first, last = stored[latents, low].astype(np.float64), stored[latents, high].astype(np.float64)
    step = last - first
    part = np.where(step > 0, (values - first) / np.where(step > 0, step, 1), 0)
    return np.asarray(odds[low] + part.clip(0, 1) * (odds[high] - odds[low]))


def surprise(quantiles: Float64[Array, "n k"]) -> Float64[Array, "n k"]:
    """Bits by which a value is rarer than the median on its side: 0 at the median, 9 at 0.1 % and at 99.9 %."""
    return np.asarray(np.log2(0.5 / np.minimum(quantiles, 1 - quantiles)).clip(min=0))
