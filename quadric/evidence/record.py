"""What data says about each latent of one autoencoder, and the settings that decide how much of it is kept.

An `Evidence` is complete: reading it needs no tokenizer and no language model. Its `repr`, and that of its parts, is a
short summary without arrays.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64

from quadric.evidence.calibration import Calibration
from quadric.model import Dictionary, Provenance
from quadric.model.storage import check_weights

POSITIVE, NEGATIVE = 0, 1
MISSING = -1
LONGEST_WINDOW = 64
SMALLEST_EPSILON = 1e-8
"""Below, (|z| + ε)⁴ leaves the range of float32."""

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class EvidenceSettings:
    """How much is kept per latent, and how it is chosen.

    Example:
        >>> from quadric.evidence import EvidenceSettings
        >>> EvidenceSettings(n_points=500).n_contexts
        6
    """

    n_points: int = 2000
    """Points per latent, drawn without replacement with weights (|z − rest| + epsilon)⁴."""
    n_contexts: int = 6
    """Strongest contexts of each sign."""
    n_axes: int = 8
    """Axes on which every kept token is projected."""
    n_lift_tokens: int = 12
    """Over-represented tokens of each sign."""
    window: int = 4
    """Tokens on each side of a context; two contexts with the same window count as one."""
    epsilon: float = 1e-4
    """Added to |z − rest| before the fourth power, so that a token on which a latent is at rest can be drawn too."""
    firing_rms: float = 2.0
    """A token fires a latent where |z − rest| exceeds this many times its root mean square."""
    n_calibration_tokens: int = 16_384
    """First tokens of the pass, from which it estimates the centre, and every latent's sign, value at rest and linear
    predictor, before it scores any."""
    seed: int = 0
    """Seed of the draw and of the random control frame."""

    def __post_init__(self) -> None:
        for name in ("n_points", "n_contexts", "n_axes", "n_lift_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        if self.n_calibration_tokens < 2:
            raise ValueError(f"n_calibration_tokens={self.n_calibration_tokens} is too few; give e.g. 16384")
        if not 0 <= self.window <= LONGEST_WINDOW:
            raise ValueError(
                f"window={self.window} is outside 0 … {LONGEST_WINDOW}; the paper shows 4 tokens on each side"
            )
        if not SMALLEST_EPSILON <= self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon} is outside [{SMALLEST_EPSILON}, 1); give e.g. 1e-4")
        if not self.firing_rms > 0:
            raise ValueError(f"firing_rms={self.firing_rms} is not positive; give e.g. 2")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TextRead:
    """Every position of the text in reading order, including those that the token rules dropped.

    For a bare tensor, every row is a sequence of one token, see `quadric.evidence.RowText`.
    """

    token_ids: Int32[Array, " n"]
    """Index into `vocabulary`: 0 is the most common token of this text."""
    sequence_starts: Int64[Array, " s"]
    """Where each sequence begins; a context never crosses a sequence."""
    documents: Int32[Array, " n"]
    """Index of each position's document in its corpus."""
    vocabulary: list[bytes]
    """The bytes of every token; a token may be a part of a character."""

    def window(self, places: Int64[Array, "*shape"], reach: int) -> Int64[Array, "*shape w"]:
        """Places from `reach` before to `reach` after each place; -1 beyond its sequence."""
        number = np.searchsorted(self.sequence_starts, places, side="right") - 1
        ends = np.append(self.sequence_starts[1:], len(self.token_ids))
        around = places[..., None] + np.arange(-reach, reach + 1)
        inside = (around >= self.sequence_starts[number][..., None]) & (around < ends[number][..., None])
        return np.where(inside, around, MISSING)

    def frequencies(self) -> Float64[Array, " v"]:
        """Share of every token of the vocabulary in this text."""
        return np.bincount(self.token_ids, minlength=len(self.vocabulary)) / max(1, len(self.token_ids))

    def __repr__(self) -> str:
        return (
            f"TextRead({len(self.token_ids):,} tokens in {len(self.sequence_starts):,} sequences, "
            f"{len(self.vocabulary):,} distinct tokens)"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Points:
    """The tokens drawn for every latent, by |z − rest| descending; place -1 where there are fewer.

    Values are sign·z: a latent and its negative are the same dictionary, and the side with more energy is positive.
    """

    places: Int64[Array, "k m"]
    """Index into `TextRead.token_ids`."""
    values: Float32[Array, "k m"]
    """sign·z."""
    coordinates: Float32[Array, "k m a"]
    """v·axis on the latent's axes, v the unit token about the centre; 0 beyond its axes."""
    linear: Float32[Array, "k m"]
    """v·l on the latent's best linear predictor, see `Calibration`: the linear control."""
    control: Float32[Array, "k m 3"]
    """v·q on one random orthonormal frame shared by all latents: the same tokens in directions that nothing learned."""

    def __repr__(self) -> str:
        n_latents, n_points, n_axes = self.coordinates.shape
        return f"Points({n_points:,} per latent of {n_latents:,} latents, on {n_axes} axes)"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Contexts:
    """The strongest tokens of each sign with different windows, by |z − rest| descending.

    The second axis is the sign of z − rest: 0 positive, 1 negative. Place -1 where there are fewer.
    """

    places: Int64[Array, "k 2 c"]
    values: Float32[Array, "k 2 c"]
    coordinates: Float32[Array, "k 2 c a"]
    linear: Float32[Array, "k 2 c"]
    control: Float32[Array, "k 2 c 3"]

    def __repr__(self) -> str:
        n_latents, _, count = self.places.shape
        return f"Contexts({count} per sign of {n_latents:,} latents)"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FiringStatistics:
    """How every latent fired over the whole pass."""

    density: Float32[Array, " k"]
    """Hoyer density of z − b, the paper's, in [0, 1], with z of x̃ at unit norm; 0 for an empty latent."""
    quantiles: Float32[Array, "k q"]
    """Of sign·z, at `probabilities`, from a histogram whose bins are 1/16 of an octave wide."""
    probabilities: Sequence[float]
    positive_share: Float32[Array, " k"]
    """Share of Σ(z − rest)² from tokens above rest; ½ for a silent latent."""
    firing_share: Float32[Array, " k"]
    """Share of tokens with |z − rest| above `EvidenceSettings.firing_rms` root mean squares, from that histogram."""
    mean_square: Float32[Array, " k"]
    """Mean of (z − rest)²."""
    curvature: Float32[Array, " k"]
    """1 − corr²(z, v·l) over the whole pass: share of the variance that the best linear predictor leaves."""
    lift_tokens: Int32[Array, "k 2 t"]
    """Indices into `TextRead.vocabulary` of the tokens most over-represented in each sign; -1 where there are fewer."""
    lifts: Float32[Array, "k 2 t"]
    """Share of the sign's Σ(z − rest)² on the token, divided by the token's share of all tokens scored."""

    def __repr__(self) -> str:
        return (
            f"FiringStatistics({len(self.density):,} latents, median density {np.median(self.density):.3f}, "
            f"median firing share {np.median(self.firing_share):.4f})"
        )


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """How well a label tells where its latent fires, see `quadric.evidence.scoring`; chance is 0.5."""

    detection: float
    """Balanced accuracy of telling texts in which the latent fires from others."""
    fuzzing: float | None
    """Balanced accuracy of telling the token that fires from another beside it; None where none is beside it."""
    n_contexts: int
    """Firing contexts; there are as many others."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelLabels:
    """Labels written by a language model, scored or not."""

    texts: dict[int, str]
    """By latent."""
    model: str
    endpoint: str
    prompt_sha256: str
    status: str = "unevaluated"
    scores: dict[int, LabelScore] = field(default_factory=dict)
    """By latent, of the labels that the same model judged."""

    def __repr__(self) -> str:
        scored = f"{len(self.scores):,} scored" if self.scores else self.status
        return f"ModelLabels({len(self.texts):,} labels by {self.model}, {scored})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Labels:
    """A short name for every latent."""

    texts: list[str]
    """Made offline from the tokens that each sign prefers, e.g. "his · her ↔ they"; empty for a silent latent."""
    positive: list[list[str]]
    """The tokens that the positive sign prefers, best first."""
    negative: list[list[str]]
    method: str
    """How they were made."""
    from_model: ModelLabels | None = None
    scores: list[LabelScore | None] | None = None
    """Of the offline labels on held-out documents, None for a latent without; None for evidence whose labels were made
    from all documents."""

    def __repr__(self) -> str:
        written = f", {len(self.from_model.texts):,} written by {self.from_model.model}" if self.from_model else ""
        return f"Labels({len(self.texts):,} latents{written})"

    def of(self, latent: int) -> str:
        """The model's label if there is one, else the offline one."""
        written = self.from_model.texts.get(latent) if self.from_model else None
        return written or self.texts[latent]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evidence:
    """What one pass over activations says about each latent of one dictionary.

    `quadric.collect_evidence` makes it. `points` are sampled tokens in the latent's coordinates, `contexts` the
    strongest tokens of each sign, `statistics` how it fires, `labels` its name.

    Example:
        >>> evidence.save("evidence")
        >>> again = quadric.Evidence.load("evidence")
        >>> again.labels.of(3) == evidence.labels.of(3)
        True
        >>> again.points.coordinates[3].shape[1] == again.settings.n_axes
        True
    """

    settings: EvidenceSettings
    n_tokens: int
    """Tokens that the rules kept and that were scored; rows, for a bare tensor."""
    provenance: Provenance
    """Of the activations that were read; model and corpus are None for a bare tensor."""
    weights_sha256: str
    """Hash of the autoencoder's tensors: evidence is valid for these weights only."""
    corpus_licence: str | None
    """Attribution that must be shown wherever the text is shown."""
    text: TextRead
    points: Points
    contexts: Contexts
    statistics: FiringStatistics
    labels: Labels
    calibration: Calibration
    """Centre of the tokens, value at rest, sign and best linear predictor of every latent."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know about this pass, in sentences."""

    @property
    def n_latents(self) -> int:
        return len(self.points.values)

    def fires(self, latent: int) -> Bool[Array, " m"]:
        """Which points of a latent are tokens on which it fires."""
        away = np.abs(self.points.values[latent] - self.calibration.rest[latent])
        limit = self.settings.firing_rms * np.sqrt(self.statistics.mean_square[latent])
        return np.asarray((self.points.places[latent] != MISSING) & (away > limit))

    def check_weights(self, autoencoder: Dictionary) -> None:
        """Raise if this is evidence about other weights."""
        check_weights(self.weights_sha256, autoencoder, "the evidence", "collect it again for this dictionary")

    def __repr__(self) -> str:
        source = self.provenance.corpus or "rows of a tensor"
        labelled = sum(bool(self.labels.of(latent)) for latent in range(self.n_latents))
        return (
            f"Evidence({self.n_latents:,} latents, {self.n_tokens:,} tokens of {source}; "
            f"{self.settings.n_points:,} points and 2 × {self.settings.n_contexts} contexts per latent, "
            f"{labelled:,} labels)"
        )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write into the folder; `Evidence.load` reads it."""
        from quadric.evidence.storage import save_evidence

        save_evidence(self, folder)

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "Evidence":
        """Read what `save` wrote; the large arrays stay on disk until they are used."""
        from quadric.evidence.storage import load_evidence

        return load_evidence(folder)
