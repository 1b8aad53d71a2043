"""The format of a static site, schema version 2: everything that the viewer reads.

    SITE/index.html, assets/…           the viewer itself, copied from quadric/viewer/static
    SITE/data/site.json                 SiteManifest, plain JSON
    SITE/data/texts/TEXT/vocabulary.st  tokens as raw bytes, ranked by frequency
    SITE/data/texts/TEXT/sequences.st   where sequences and documents begin
    SITE/data/texts/TEXT/00000.st       65,536 token ids each
    SITE/data/DICTIONARY/index.st       LatentColumns: one number per latent and column
    SITE/data/DICTIONARY/labels.json.gz one LatentLabel per latent
    SITE/data/DICTIONARY/clusters.json.gz what was found in each latent, by latent; only if clusters were searched
    SITE/data/DICTIONARY/patterns.json.gz the patterns of each latent, by latent; only if patterns were tested
    SITE/data/DICTIONARY/tokens.st      which latents a token drives; loaded by the first search
    SITE/data/DICTIONARY/latents/06724.st
    SITE/data/comparisons/00000.st      counterparts of the latents of two dictionaries; one file per pair

Every `.st` is a gzip'd safetensors file. Numbers are split into byte planes, which compress better than the numbers:
plane b of a tensor (planes, …) holds byte b of each, lowest first. Signed planes of width w bits mean
scale · integer / (2^(w−1) − 1). `web/src/data/schema.ts` mirrors this module, and a test compares them.

Every latent is shown about the centre of the tokens. On the slice through the centre that its axes span, with
coordinates ξ_j = v·axis_j,

    z = Σ_j (axis_quadratic_j ξ_j² + axis_linear_j ξ_j) + constant,

so that the viewer can draw shifted ellipsoids and paraboloids as they are. A latent and its negative are the same
dictionary: here the side with more energy is positive.

A dictionary may be linear (`is_linear`): its latents are directions, with no eigenvalues, and the formula above is z
before its gate, which is 0 where that is negative or too weak. Their sign is their own, and they rest at 0.

Parts that were added to version 2 later may be missing in its older sites; the viewer then leaves them out: a
dictionary's `clusters` and a latent's tensor of that name, its `patterns`, everything about scores of labels, the
manifest's `comparisons`, and a dictionary's `is_linear`, which is then false.

A site can also show rows of a user's own tensor: each row is then a sequence of length one whose only token is the
row's text, and the text's `unit` is "row".
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Int32, Int64

from quadric.model.provenance import Provenance

FORMAT = "quadric-site"
SCHEMA_VERSION = 2
SHARD_TOKENS = 65_536
"""Token ids per corpus shard."""
FINE_AXES = 3
"""Leading axes stored with 16 bits, since they are shown first; further axes and the control have 8."""
MOST_EIGENVALUES = 64
"""Eigenvalues listed per latent; `total_weight` and `rank` count all of them."""
CONTEXT_REACH = 4
"""Tokens on each side of a context in a latent's file."""
MOST_CLUSTERS = 254
"""Clusters per latent; a point stores its own in one byte."""
TOKENS_PER_LATENT = 32
"""Tokens per latent in the search index."""
SHAPES = (
    "empty",
    "constant",
    "half-space",
    "slab",
    "ellipsoid",
    "hyperboloid",
    "elliptic paraboloid",
    "hyperbolic paraboloid",
)
"""The shapes of `quadric.geometry`; the column `shape` holds indices into this tuple."""
EIGENVECTOR, LINEAR_DIRECTION, READING_DIRECTION, PRINCIPAL_COMPONENT, NO_AXIS = 0, 1, 2, 3, -1
"""What an axis can be: an eigenvector of the quadratic part, the direction of the linear part, or nothing. In a linear
dictionary the linear direction is what a latent writes, its row of the decoder; the reading direction is the part of
its row of the encoder orthogonal to that; principal components are those of all tokens, orthogonal to both."""
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
    """p of the sampling weight (|z − rest| + ε)^p."""
    epsilon: float
    """ε of the sampling weight."""
    seed: int
    firing_threshold: str
    """What counts as firing, in words, e.g. '|z − rest| > 2 · root mean square of z − rest'."""
    positive_share: str
    """The quantity of which `positive_share` is a share, e.g. 'Σ(z − rest)²'."""
    quantile_probabilities: tuple[float, ...]
    """Probabilities of the quantiles stored for every latent."""
    control_seed: int | None
    """Seed of the random orthonormal frame of the control."""
    linear_control: str
    """How the linear direction of every latent was found, in words."""


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
    error_constant: float | None
    """Relative error of the constant block of xxᵀ about the centre."""
    error_linear: float | None
    """Relative error of the linear block."""
    error_quadratic: float | None
    """Relative error of the quadratic block: what is left of the shapes."""
    floor: float | None
    """Least error that any tied dictionary of this size could have, by PCA of xxᵀ."""
    dense_share: float | None
    """Share of latents that are dense: Hoyer density over 0.5."""
    n_empty: int | None
    n_copies: int | None
    n_distinct: int | None
    """Latents that are neither empty nor copies."""


@dataclass(frozen=True, kw_only=True)
class LabelMethods:
    """How labels were made and scored, in words."""

    offline: str
    """Statistic behind labels that were made from the evidence alone."""
    written: str | None
    """Language model that wrote further labels, or None."""
    scored: str | None
    """How labels were scored; None where none was."""


@dataclass(frozen=True, kw_only=True)
class PatternControl:
    """How often a pattern is found where nothing was learned, or where there is nothing to find."""

    name: str
    """What has nothing to show, in words."""
    n_shown: int
    n_tested: int
    is_own: bool
    """Whether it was made with this dictionary; else it was measured on that of `quadric demo`."""
    is_exceeded: bool
    """Whether the dictionary shows the pattern more often."""


@dataclass(frozen=True, kw_only=True)
class PatternKind:
    """One of the paper's example geometries: how it was tested, and how often it was found."""

    name: str
    """cone, cluster, interpolation or subset."""
    meaning: str
    """What it looks like, in words."""
    statistic: str
    """What the statistic measures, in words."""
    chance: str
    """With what the statistic is compared, in words."""
    n_shown: int
    """Latents that show it."""
    n_tested: int
    """Latents that could be tested for it."""
    controls: tuple[PatternControl, ...]
    best: tuple[int, ...]
    """The clearest examples, best first."""


@dataclass(frozen=True, kw_only=True)
class PatternSearch:
    """What a search for the paper's example geometries found in a dictionary."""

    method: str
    """Which latents were tested, and how, in words."""
    kinds: tuple[PatternKind, ...]


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
    """Number of axes on which points have coordinates."""
    is_linear: bool = False
    """Whether latents are directions, as in TopK, rather than quadratic forms."""
    lens: str
    """paper or affine: the map from tokens to the coordinates of the forms; none for a linear dictionary."""
    centre_norm: float
    """‖μ‖ of the centre about which latents are shown, the mean of the tokens as read; 0 for the origin."""
    ranking: str
    """How the column `worth` is computed, in words."""
    mixing_density: float | None
    source: str | None
    """What `quadric.load` takes: a folder or a hub id. None for an autoencoder that was never saved."""
    source_autoencoder: str | None
    """Its name within a run that trained several."""
    text: str
    """Name of the text that its points are from."""
    umap: str | None
    """How the UMAP coordinates were computed, in words; None where there are none."""
    clusters: str | None
    """How clusters of points were found, and in which latents, in words; None where they were not searched."""
    patterns: PatternSearch | None = None
    """What was found of the paper's example geometries; None where latents were not tested for them."""
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
class ComparisonEntry:
    """Two dictionaries that read the same vectors; its place in the manifest is the number of its file."""

    first: str
    second: str
    """Names of the two dictionaries."""
    frobenius: float
    """Sim_F of the two as wholes, 0 to 1."""
    alignment: float
    """Σ|⟨W, W'⟩| over matched latents / √(Σ‖W‖² Σ‖W'‖²), 0 to 1."""
    smallest_overlap: float
    """Overlap below which a latent counts as having no counterpart."""
    chance: float
    """99th percentile of the overlaps with a random initialization."""
    method: str
    """How latents were matched, in words."""


@dataclass(frozen=True, kw_only=True)
class SiteManifest:
    """data/site.json."""

    format: str
    schema_version: int
    package_version: str
    title: str
    texts: tuple[TextEntry, ...]
    dictionaries: tuple[DictionaryEntry, ...]
    comparisons: tuple[ComparisonEntry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """How well a label tells where its latent fires, on held-out documents; chance is 0.5."""

    detection: float
    """Balanced accuracy of telling texts in which the latent fires from others."""
    fuzzing: float | None
    """Balanced accuracy of telling the token that fires from another beside it; None where there is none beside it."""
    n_contexts: int
    """Firing contexts that it was measured on; there are as many others."""


@dataclass(frozen=True, kw_only=True)
class LatentLabel:
    """What a latent may be about, and how well that was found to hold."""

    text: str
    """Short offline label, e.g. 'his · her ↔ they'."""
    positive: str
    """What drives z > 0."""
    negative: str
    """What drives z < 0."""
    written: str | None
    """Label written by a language model, if any; takes precedence."""
    score: LabelScore | None = None
    """Of the offline label, judged by its own words as a rule; None if it was not scored."""
    written_score: LabelScore | None = None
    """Of the written label, judged by its language model; None if it was not scored."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A group of a latent's points that are close to each other."""

    name: str
    """The tokens that it prefers."""
    n_points: int
    stability: float
    """Mean Jaccard similarity with the groups of bootstrap resamples, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class LatentClusters:
    """What a search for clusters found in one latent."""

    clusters: tuple[Cluster, ...]
    """Largest first; none where the controls have as many stable groups."""
    n_stable: int
    """Groups that resampling finds again."""
    n_unstable: int
    """Groups that it does not."""
    n_control: int
    """Stable groups of the controls: none of them has more."""


@dataclass(frozen=True, kw_only=True)
class LatentPattern:
    """What the test of one pattern found in one latent."""

    name: str
    """The pattern, as in PatternKind."""
    statistic: float | None
    """None where there was nothing to test."""
    p_value: float | None
    """After correction for the number of latents; None where there was nothing to test, and for clusters."""
    shown: bool
    """Whether the latent shows the pattern."""
    tokens: tuple[str, ...]
    """Tokens of the ray; of each cluster; end, middle, end; the token with two signs."""


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
    """Mean of (z − rest)²."""
    curvature: Float32[np.ndarray, " k"]
    """Share of the variance of z that no linear function of the token explains, from weights and covariance."""
    measured_curvature: Float32[np.ndarray, " k"]
    """The same, measured: 1 − corr²(z, best linear predictor) over the tokens scored."""
    copy_of: Float32[np.ndarray, " k"]
    """The earlier latent with nearly the same form, or NOTHING."""
    worth: Float32[np.ndarray, " k"]
    """Larger first: curved, sparse, distinct latents. The entry's `ranking` states the rule."""
    umap_x: Float32[np.ndarray, " k"] | None
    umap_y: Float32[np.ndarray, " k"] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentRecord:
    """latents/NNNNN.st: the page of one latent. Points are sorted by |z − rest| descending.

    They include every context.
    """

    latent: int
    eigenvalues: Float32[np.ndarray, " r"]
    """Of the quadratic part, by |λ| descending, at most MOST_EIGENVALUES."""
    rank: int
    """Number of nonzero eigenvalues, listed or not."""
    total_weight: float
    """Σ|λ| over all eigenvalues: captured = Σ|λ| of the eigenvectors shown / total_weight."""
    axis_quadratic: Float32[np.ndarray, " a"]
    """axisᵀQ axis of each axis: λ where it is an eigenvector."""
    axis_linear: Float32[np.ndarray, " a"]
    """Slope of z along each axis at the centre."""
    axis_kind: Int32[np.ndarray, " a"]
    """EIGENVECTOR, LINEAR_DIRECTION, READING_DIRECTION, PRINCIPAL_COMPONENT or NO_AXIS."""
    constant: float
    """z at the centre of the tokens."""
    rest: float
    """Median of z: points are far from it, most tokens near; 0 in a linear dictionary."""
    curvature: float
    measured_curvature: float
    """As the columns of that name."""
    places: Int64[np.ndarray, " m"]
    """Index of each point in the text."""
    tokens: Int32[np.ndarray, " m"]
    """Token of each point, an id of the text's vocabulary."""
    values: Float32[np.ndarray, " m"]
    """z, in the sign for which the side with more energy is positive."""
    coordinates: Float32[np.ndarray, "m a"]
    """v·axis_j, with v the unit token about the centre."""
    control: Float32[np.ndarray, "m 3"]
    """v·q_j on a random orthonormal frame, shared by all latents."""
    linear: Float32[np.ndarray, " m"]
    """v·l on the unit vector l whose linear function predicts z best."""
    clusters: Int32[np.ndarray, " m"]
    """Cluster of each point, an index into LatentClusters.clusters, or NOTHING."""
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
    clusters: dict[int, LatentClusters] = field(default_factory=dict)
    """By latent, those that were searched."""
    patterns: dict[int, tuple[LatentPattern, ...]] = field(default_factory=dict)
    """By latent, those that were tested."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteComparison:
    """A comparison to write: comparisons/NNNNN.st holds the two columns."""

    entry: ComparisonEntry
    partners: Int32[np.ndarray, " k"]
    """Of each latent of the first dictionary, the latent of the second that it is matched with, or NOTHING."""
    overlaps: Float32[np.ndarray, " k"]
    """|cosine| of the two forms; 0 where there is no partner."""
