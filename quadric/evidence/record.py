"""What data says about each latent of one autoencoder; nothing else is needed to read it, not even a tokenizer."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Int32, Int64

from quadric.autoencoders import Provenance
from quadric.evidence.settings import EvidenceSettings

POSITIVE, NEGATIVE = 0, 1
MISSING = -1

Array = np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class TextRead:
    """Every position that the language model read, in reading order, those that no latent was shown too."""

    token_ids: Int32[Array, " n"]
    """Index into `vocabulary`: 0 is the commonest token of this text."""
    sequence_starts: Int64[Array, " s"]
    """Where each sequence begins; a context never crosses a sequence."""
    documents: Int32[Array, " n"]
    """Index of each position's document in its corpus."""
    vocabulary: list[bytes]
    """The bytes of every token; a token may be a part of a character."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """The tokens drawn for every latent, by |value| descending; place -1 where there are fewer."""

    places: Int64[Array, "k m"]
    """Index into `TextRead.token_ids`."""
    values: Float32[Array, "k m"]
    """z of the unit-norm token, signed."""
    coordinates: Float32[Array, "k m a"]
    """x·v on the latent's leading eigenvectors; 0 beyond its rank."""
    control: Float32[Array, "k m 3"]
    """x·q on one random orthonormal frame for all latents: how the same tokens look where nothing was learned."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contexts:
    """The strongest tokens of each sign with different windows, by |value| descending; place -1 where there are fewer.

    The second axis is the sign: 0 positive, 1 negative.
    """

    places: Int64[Array, "k 2 c"]
    values: Float32[Array, "k 2 c"]
    coordinates: Float32[Array, "k 2 c a"]
    control: Float32[Array, "k 2 c 3"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FiringStatistics:
    """How every latent fired over the whole pass."""

    density: Float32[Array, " k"]
    """Hoyer density of z − b, the paper's, in [0, 1]."""
    quantiles: Float32[Array, "k q"]
    """Of z, at `probabilities`, from a histogram whose bins are 1/16 of an octave wide."""
    probabilities: Sequence[float]
    positive_share: Float32[Array, " k"]
    """Share of Σz² from tokens with z > 0; ½ for a silent latent."""
    firing_share: Float32[Array, " k"]
    """Share of tokens with |z| above `EvidenceSettings.firing_rms` root mean squares, from the same histogram."""
    mean_square: Float32[Array, " k"]
    """Of z."""
    lift_tokens: Int32[Array, "k 2 t"]
    """Dense ids of the tokens most over-represented in each sign; -1 where there are fewer."""
    lifts: Float32[Array, "k 2 t"]
    """Share of the sign's Σz² that falls on the token, over the token's share of all tokens scored."""


@dataclass(frozen=True, kw_only=True)
class ModelLabels:
    """Labels that a language model wrote; nobody has checked them."""

    texts: dict[int, str]
    """By latent."""
    model: str
    endpoint: str
    prompt_sha256: str
    status: str = "unevaluated"


@dataclass(frozen=True, kw_only=True)
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

    def of(self, latent: int) -> str:
        """The model's label where there is one, else the offline one."""
        written = self.from_model.texts.get(latent) if self.from_model else None
        return written or self.texts[latent]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What one pass over activations says about each latent of one bilinear autoencoder."""

    settings: EvidenceSettings
    n_tokens: int
    """Tokens that the rules kept and that were scored."""
    provenance: Provenance
    """Of the activations that were read."""
    weights_sha256: str
    """Of the autoencoder's tensors: evidence about other weights is no evidence."""
    corpus_licence: str | None
    """Attribution that goes wherever the text goes."""
    text: TextRead
    points: Points
    contexts: Contexts
    statistics: FiringStatistics
    labels: Labels
    notes: list[str] = field(default_factory=list)
    """What a reader should know of this pass, in sentences."""

    @property
    def n_latents(self) -> int:
        return len(self.points.values)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write into the folder; `Evidence.load` reads it."""
        from quadric.evidence.storage import save_evidence

        save_evidence(self, folder)

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "Evidence":
        """Read what `save` wrote; the large arrays stay on disk until they are touched."""
        from quadric.evidence.storage import load_evidence

        return load_evidence(folder)
