"""The format of a static site, schema version 1: all that the viewer knows.

    SITE/index.html, assets/…           the viewer itself, copied from quadric/site/static
    SITE/data/site.json                 SiteManifest, plain JSON
    SITE/data/texts/TEXT/vocabulary.st  tokens as raw bytes, ranked by frequency
    SITE/data/texts/TEXT/sequences.st   where sequences and documents begin
    SITE/data/texts/TEXT/00000.st       65,536 token ids each
    SITE/data/DICTIONARY/index.st       LatentColumns: one number a latent and column
    SITE/data/DICTIONARY/labels.json.gz a LatentLabel a latent
    SITE/data/DICTIONARY/tokens.st      which latents a token drives; read when someone searches
    SITE/data/DICTIONARY/latents/06724.st

Every `.st` is a gzip'd safetensors file. Numbers are split into byte planes, which compress better than the numbers:
plane b of a tensor (planes, …) holds byte b of each, lowest first. Signed planes of width w bits stand for
scale · integer / (2^(w−1) − 1). `web/src/data/schema.ts` is this module's twin and tests/site/test_schema.py keeps it so.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, Int64

from quadric.autoencoders.provenance import Provenance

FORMAT = "quadric-site"
SCHEMA_VERSION = 1
SHARD_TOKENS = 65_536
"""Token ids in one corpus shard."""
FINE_AXES = 3
"""Leading axes kept to 16 bits, since they are the ones shown first; further axes and the control get 8."""
MOST_EIGENVALUES = 64
"""Eigenvalues listed a latent; `total_weight` and `rank` speak of all of them."""
CONTEXT_REACH = 4
"""Tokens on each side of a context in the latent's own file."""
TOKENS_A_LATENT = 32
"""Tokens under which a latent can be found by search."""
SHAPES = ("empty", "slab", "ellipsoid", "hyperboloid")
"""Kinds of `quadric.geometry.shapes`, by the number that stands for them in the column `shape`."""
NOTHING = -1
"""Stands for a place, a token or a point that does not exist."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the points of a dictionary were drawn; the viewer shows it beside every scatter."""

    n_tokens: int
    """Tokens that were scored."""
    n_points: int
    """Most points a latent."""
    weight_exponent: float
    """p of the sampling weight (|z| + ε)^p."""
    epsilon: float
    """ε of the sampling weight."""
    seed: int
    firing_threshold: str
    """Which |z| counts as firing, in words, e.g. '|z| > 0.01'."""
    positive_share: str
    """What the column positive_share is a share of, e.g. 'Σz²'."""
    quantile_probabilities: tuple[float, ...]
    """Probabilities of the quantiles in every latent's file."""
    control_seed: int | None
    """Seed of the random orthonormal frame of the control."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How good the autoencoder is, measured on text it was not trained on; None where unknown."""

    error: float | None
    """Normalized mean squared error in the product space."""
    density: float | None
    """Mean Hoyer density of the latents."""
    cross_entropy_recovered: float | None
    n_tokens: int | None
    """Tokens it was measured on."""


@dataclass(frozen=True, kw_only=True)
class LabelMethods:
    """How labels were made, in words; nobody has checked any of them."""

    offline: str
    """Statistic behind the labels made from the evidence alone."""
    written: str | None
    """Language model that wrote the others, or None."""


@dataclass(frozen=True, kw_only=True)
class DictionaryEntry:
    """One autoencoder of the site."""

    name: str
    """Letters, digits, dot, dash and underscore: it is a folder and a part of the address."""
    prior: str
    d_model: int
    n_hidden: int
    n_latents: int
    n_axes: int
    """Eigenvectors on which every point has a coordinate."""
    mixing_density: float | None
    source: str
    """What `quadric.load` takes to load it: a folder or a hub id."""
    source_autoencoder: str | None
    """Its name within a run that trained several."""
    text: str
    """Name of the text its points are from."""
    umap: str | None
    """What the UMAP coordinates are made from, in words; None where there are none."""
    provenance: Provenance
    sampling: Sampling
    quality: Quality
    labels: LabelMethods


@dataclass(frozen=True, kw_only=True)
class TextEntry:
    """One text that dictionaries point into."""

    name: str
    n_tokens: int
    n_sequences: int
    n_shards: int
    vocabulary_size: int
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
    """What a latent may be about; unevaluated."""

    text: str
    """Short offline label, e.g. 'his · her ↔ they'."""
    positive: str
    """What drives z > 0."""
    negative: str
    """What drives z < 0."""
    written: str | None
    """Label written by a language model, if any; shown first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentColumns:
    """index.st: what the landing page needs of every latent, as columns of k numbers."""

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
    """latents/NNNNN.st: one latent's page. Points come by |z| descending and contain every context."""

    latent: int
    eigenvalues: Float32[np.ndarray, " r"]
    """By |λ| descending, at most MOST_EIGENVALUES."""
    rank: int
    """Eigenvalues that are not zero, listed or not."""
    total_weight: float
    """Σ|λ| over all eigenvalues: captured = Σ|λ| of the three axes shown / total_weight."""
    places: Int64[np.ndarray, " m"]
    """Where each point is in the text."""
    tokens: Int32[np.ndarray, " m"]
    """Its token, an id of the text's vocabulary."""
    values: Float32[np.ndarray, " m"]
    """z of the unit-norm token, signed."""
    coordinates: Float32[np.ndarray, "m a"]
    """x·v_j on the leading eigenvectors."""
    control: Float32[np.ndarray, "m 3"]
    """x·q_j on a random orthonormal frame, the same for all latents."""
    contexts: Int32[np.ndarray, "2 c"]
    """Points with the strongest contexts, positive then negative, strongest first; NOTHING where there are fewer."""
    context_tokens: Int32[np.ndarray, "2 c 9"]
    """Tokens around each context, the point's own in the middle; NOTHING beyond the sequence."""
    neighbours: Int32[np.ndarray, " n"]
    overlaps: Float32[np.ndarray, " n"]
    quantiles: Float32[np.ndarray, " q"]
    lift_tokens: Int32[np.ndarray, "2 t"]
    """Over-represented tokens of each sign, NOTHING where there are fewer."""
    lifts: Float32[np.ndarray, "2 t"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteText:
    """A text to write; TextEntry is what the manifest says of it."""

    name: str
    token_ids: Int32[np.ndarray, " n"]
    sequence_starts: Int64[np.ndarray, " s"]
    documents: Int32[np.ndarray, " n"]
    """Which document each token is from."""
    vocabulary: list[bytes]
    attribution: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteDictionary:
    """A dictionary to write; its latents may be a generator, so that they are never all in memory."""

    entry: DictionaryEntry
    columns: LatentColumns
    labels: list[LatentLabel]
    latents: Iterable[LatentRecord]
    """In order, from latent 0 to the last."""
