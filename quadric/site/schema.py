"""The format of a static site, schema version 1: everything that the viewer reads.

    SITE/index.html, assets/…           the viewer itself, copied from quadric/site/static
    SITE/data/site.json                 SiteManifest, plain JSON
    SITE/data/texts/TEXT/vocabulary.st  tokens as raw bytes, ranked by frequency
    SITE/data/texts/TEXT/sequences.st   where sequences and documents begin
    SITE/data/texts/TEXT/00000.st       65,536 token ids each
    SITE/data/DICTIONARY/index.st       LatentColumns: one number per latent and column
    SITE/data/DICTIONARY/labels.json.gz one LatentLabel per latent
    SITE/data/DICTIONARY/tokens.st      which latents a token drives; loaded by the first search
    SITE/data/DICTIONARY/latents/06724.st

Every `.st` is a gzip'd safetensors file. Numbers are split into byte planes, which compress better than the numbers:
plane b of a tensor (planes, …) holds byte b of each, lowest first. Signed planes of width w bits mean
scale · integer / (2^(w−1) − 1). `web/src/data/schema.ts` mirrors this module; tests/site/test_schema.py compares them.

A site can also show rows of a user's own tensor: each row is then a sequence of length one whose only token is the
row's text, and the text's `unit` is "row".
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, Int64

from quadric.autoencoders.provenance import Provenance

FORMAT = "quadric-site"
SCHEMA_VERSION = 1
SHARD_TOKENS = 65_536
"""Token ids per corpus shard."""
FINE_AXES = 3
"""Leading axes stored with 16 bits, since they are shown first; further axes and the control have 8."""
MOST_EIGENVALUES = 64
"""Eigenvalues listed per latent; `total_weight` and `rank` count all of them."""
CONTEXT_REACH = 4
"""Tokens on each side of a context in a latent's file."""
TOKENS_PER_LATENT = 32
"""Tokens per latent in the search index."""
SHAPES = ("empty", "slab", "ellipsoid", "hyperboloid")
"""Kinds of `quadric.geometry.shapes`; the column `shape` holds indices into this tuple."""
TOKEN, ROW = UNITS = ("token", "row")
"""What a point of a scatter can be: a token that a language model read, or a row of a user's own tensor."""
NOTHING = -1
"""Marks a missing place, token or point."""


def unit_of(provenance: Provenance) -> str:
    """What a point is: a row where activations came from no model, corpus or hook point, else a token."""
    known = (provenance.model, provenance.corpus, provenance.hook_point)
    return ROW if all(each is None for each in known) else TOKEN


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the points of a dictionary were sampled; the viewer states it below every scatter."""

    n_tokens: int
    """Tokens (or rows) that were scored."""
    n_points: int
    """Largest number of points per latent."""
    weight_exponent: float
    """p of the sampling weight (|z| + ε)^p."""
    epsilon: float
    """ε of the sampling weight."""
    seed: int
    firing_threshold: str
    """Which |z| counts as firing, in words, e.g. '|z| > 0.01'."""
    positive_share: str
    """The quantity of which `positive_share` is a share, e.g. 'Σz²'."""
    quantile_probabilities: tuple[float, ...]
    """Probabilities of the quantiles stored for every latent."""
    control_seed: int | None
    """Seed of the random orthonormal frame of the control."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality of the autoencoder on held-out text; None where unknown."""

    error: float | None
    """Normalized mean squared error in the product space."""
    density: float | None
    """Mean Hoyer density of the latents."""
    cross_entropy_recovered: float | None
    n_tokens: int | None
    """Tokens it was measured on."""


@dataclass(frozen=True, kw_only=True)
class LabelMethods:
    """How labels were made, in words. Labels are not evaluated."""

    offline: str
    """Statistic behind labels that were made from the evidence alone."""
    written: str | None
    """Language model that wrote further labels, or None."""


@dataclass(frozen=True, kw_only=True)
class DictionaryEntry:
    """One autoencoder of the site."""

    name: str
    """Letters, digits, dot, dash and underscore, since it is a folder and a part of the address."""
    prior: str
    d_model: int
    n_hidden: int
    n_latents: int
    n_axes: int
    """Number of eigenvectors on which points have coordinates."""
    mixing_density: float | None
    source: str | None
    """What `quadric.load` takes: a folder or a hub id. None for an autoencoder that was never saved."""
    source_autoencoder: str | None
    """Its name within a run that trained several."""
    text: str
    """Name of the text that its points are from."""
    umap: str | None
    """How the UMAP coordinates were computed, in words; None where there are none."""
    provenance: Provenance
    sampling: Sampling
    quality: Quality
    labels: LabelMethods


@dataclass(frozen=True, kw_only=True)
class TextEntry:
    """One text that the points of dictionaries are from."""

    name: str
    n_tokens: int
    n_sequences: int
    n_shards: int
    vocabulary_size: int
    unit: str
    """What a point is, one of UNITS."""
    attribution: str | None
    """Licence and origin, shown on every page."""


@dataclass(frozen=True, kw_only=True)
class SiteManifest:
    """data/site.json."""

    format: str
    schema_version: int
    package_version: str
    title: str
    texts: tuple[TextEntry, ...]
    dictionaries: tuple[DictionaryEntry, ...]


@dataclass(frozen=True, kw_only=True)
class LatentLabel:
    """What a latent may be about; not evaluated."""

    text: str
    """Short offline label, e.g. 'his · her ↔ they'."""
    positive: str
    """What drives z > 0."""
    negative: str
    """What drives z < 0."""
    written: str | None
    """Label written by a language model, if any; takes precedence."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentColumns:
    """index.st: what the landing page shows of every latent, as columns of k numbers."""

    importance: Float32[np.ndarray, " k"]
    effective_rank: Float32[np.ndarray, " k"]
    captured: Float32[np.ndarray, " k"]
    support: Float32[np.ndarray, " k"]
    density: Float32[np.ndarray, " k"]
    shape: Float32[np.ndarray, " k"]
    """Index into SHAPES."""
    positive_share: Float32[np.ndarray, " k"]
    firing_share: Float32[np.ndarray, " k"]
    mean_square: Float32[np.ndarray, " k"]
    umap_x: Float32[np.ndarray, " k"] | None
    umap_y: Float32[np.ndarray, " k"] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentRecord:
    """latents/NNNNN.st: the page of one latent. Points are sorted by |z| descending and include every context."""

    latent: int
    eigenvalues: Float32[np.ndarray, " r"]
    """By |λ| descending, at most MOST_EIGENVALUES."""
    rank: int
    """Number of nonzero eigenvalues, listed or not."""
    total_weight: float
    """Σ|λ| over all eigenvalues: captured = Σ|λ| of the three axes shown / total_weight."""
    places: Int64[np.ndarray, " m"]
    """Index of each point in the text."""
    tokens: Int32[np.ndarray, " m"]
    """Token of each point, an id of the text's vocabulary."""
    values: Float32[np.ndarray, " m"]
    """z of the unit-norm token, signed."""
    coordinates: Float32[np.ndarray, "m a"]
    """x·v_j on the leading eigenvectors."""
    control: Float32[np.ndarray, "m 3"]
    """x·q_j on a random orthonormal frame, shared by all latents."""
    contexts: Int32[np.ndarray, "2 c"]
    """Points with the strongest contexts, positive then negative, strongest first; padded with NOTHING."""
    context_tokens: Int32[np.ndarray, "2 c 9"]
    """Tokens around each context, the point's own in the middle; NOTHING beyond the sequence."""
    neighbours: Int32[np.ndarray, " n"]
    overlaps: Float32[np.ndarray, " n"]
    quantiles: Float32[np.ndarray, " q"]
    lift_tokens: Int32[np.ndarray, "2 t"]
    """Over-represented tokens of each sign, padded with NOTHING."""
    lifts: Float32[np.ndarray, "2 t"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteText:
    """A text to write; the manifest describes it by a TextEntry."""

    name: str
    token_ids: Int32[np.ndarray, " n"]
    sequence_starts: Int64[np.ndarray, " s"]
    documents: Int32[np.ndarray, " n"]
    """Document of each token."""
    vocabulary: list[bytes]
    attribution: str | None
    unit: str = TOKEN
    """What a point is, one of UNITS."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteDictionary:
    """A dictionary to write; `latents` may be a generator, so that they are never all in memory."""

    entry: DictionaryEntry
    columns: LatentColumns
    labels: list[LatentLabel]
    latents: Iterable[LatentRecord]
    """In order, from latent 0 to the last."""
