"""Groups among the points of a latent, each with a name and a measured stability, against two controls.

Points are grouped by HDBSCAN in the latent's own coordinates v·axis. Any draw of points has groups by chance, and the
weights (|z − rest| + ε)⁴ make some by themselves: a form with λ₁ > 0 > λ₂ draws four lobes from tokens that have no
structure at all. So two things are asked of groups before they are called clusters:

1. Stability. Each of RESAMPLES bootstrap resamples is grouped again; the stability of a group is the mean, over
   resamples, of its largest Jaccard similarity with a group found there (Hennig, 2007). Groups below
   SMALLEST_STABILITY are dropped.
2. Controls. Gaussian tokens with the covariance of the real ones go through the same form and the same weighted draw,
   and the latent's own points are shown on random directions. If any control has as many stable groups as the latent,
   the latent has no clusters. (Gaussian tokens pass the ReLU of a linear latent, but do not compete with the other
   latents of their dictionary.) Nor has it with MADE_BY_DRAW groups or fewer: those are the two lobes of a slab, which
   tokens with heavier tails than Gaussian ones separate more clearly than the control does.
"""

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from quadric._io.progress import Progress, no_progress
from quadric.evidence.labels import SignTokens, Spellings, distinct_labels, preferences, sign_tokens, spellings
from quadric.evidence.ranking import worth
from quadric.evidence.record import MISSING, Evidence, TextRead
from quadric.geometry import DictionaryGeometry

Array = np.ndarray

MOST_LATENTS = 100
"""Latents of a dictionary that are searched by default, best first by `quadric.evidence.ranking`."""
SMALLEST_PART = 0.02
"""Share of a latent's points below which a group is noise."""
FEWEST_POINTS = 10
"""Points below which a group is noise, whatever its share."""
NEIGHBOURS = 5
"""Points that HDBSCAN counts to estimate a density."""
RESAMPLES = 8
SMALLEST_STABILITY = 0.75
"""Hennig calls clusters from 0.75 on valid, and those below 0.6 doubtful."""
MADE_BY_DRAW = 2
"""Stable groups that the draw alone may make. On tokens from a t distribution, which have no clusters, 7 of 10 latents
have two, and the Gaussian controls do not always have as many (docs/decisions.md)."""
GAUSSIAN_CONTROLS = 2
MOST_CONTROL_TOKENS = 200_000
"""Gaussian tokens from which a control is drawn; fewer if the evidence read fewer."""
METHOD = (
    "HDBSCAN of the points on the latent's axes (at least 2 % of them per cluster); stability is the mean over "
    f"{RESAMPLES} bootstrap resamples of the largest Jaccard similarity with a cluster found there, and clusters below "
    f"{SMALLEST_STABILITY:g} are dropped; kept only if there are more than {MADE_BY_DRAW}, and more than in "
    f"{GAUSSIAN_CONTROLS} draws of Gaussian tokens with the same covariance, form and weights and in the same points "
    "on random directions; named by tokens, as labels are"
)
UNAVAILABLE = "clusters need scikit-learn; pip install 'quadric[site]'"


class LatentClusters(NamedTuple):
    """The clusters among a latent's points, largest first."""

    members: Int64[Array, " m"]
    """Cluster of every point of `Evidence.points`; −1 for points in none, and for free slots."""
    names: list[str]
    """The tokens that each cluster prefers, as labels are made."""
    stability: Float64[Array, " c"]
    """Mean Jaccard similarity under resampling, from SMALLEST_STABILITY to 1."""
    n_unstable: int
    """Groups that were dropped because they are not stable."""
    n_stable: int
    """Stable groups; more than `len(names)` only where the controls have as many, so that none counts as a cluster."""
    n_control: int
    """Bound on the stable groups of the controls: none of them has more."""

    def __repr__(self) -> str:
        return f"LatentClusters({len(self.names)} clusters: {', '.join(self.names) or 'none beyond the controls'})"


class Grouping(NamedTuple):
    """Groups of points, largest first, and how stable each is."""

    members: Int64[Array, " m"]
    stability: Float64[Array, " c"]

    @property
    def n_stable(self) -> int:
        return int((self.stability >= SMALLEST_STABILITY).sum())


def is_available() -> bool:
    """Whether scikit-learn, which has HDBSCAN, is installed."""
    return find_spec("sklearn") is not None


def clusters_of(
    evidence: Evidence,
    geometry: DictionaryGeometry,
    *,
    count: int = MOST_LATENTS,
    seed: int = 0,
    on_progress: Progress = no_progress,
) -> dict[int, LatentClusters]:
    """Search the latents that are most worth a look for clusters.

    Args:
        evidence: What data says about the latents.
        geometry: Their geometry about the centre of the evidence.
        count: How many latents are searched, best first by `quadric.evidence.ranking.worth`.
        seed: Seed of the resamples and of the Gaussian controls.
        on_progress: Called after every latent.

    Returns:
        What was found, by latent; a latent that was searched in vain is there too, with no names.

    Example:
        >>> found = clusters_of(evidence, geometry.dictionary_geometry(ae), count=3)
        >>> names = {latent: clusters.names for latent, clusters in found.items()}
    """
    if not is_available():
        raise ValueError(UNAVAILABLE)
    ranking = worth(evidence, geometry.redundancy, is_linear=geometry.is_linear)
    chosen = [int(latent) for latent in np.argsort(-ranking, kind="stable")[:count] if ranking[latent] > 0]
    names = ClusterNames(evidence.text)
    tokens = control_tokens(evidence, GAUSSIAN_CONTROLS, seed)
    found: dict[int, LatentClusters] = {}
    on_progress("clusters", 0, len(chosen), "")
    for latent in chosen:
        generator = np.random.default_rng((seed, latent))
        found[latent] = latent_clusters(evidence, geometry, latent, names, tokens, generator)
        on_progress("clusters", len(found), len(chosen), "")
    return found


def latent_clusters(
    evidence: Evidence,
    geometry: DictionaryGeometry,
    latent: int,
    names: "ClusterNames",
    tokens: Float32[Array, "r n a"],
    generator: np.random.Generator,
) -> LatentClusters:
    """The clusters of one latent; `tokens` are standard normal numbers from which its controls are made."""
    drawn = evidence.points
    held = np.flatnonzero(drawn.places[latent] != MISSING)
    own = grouping(np.asarray(drawn.coordinates[latent][held]), generator)
    n_control = 0
    for draw in (None, *tokens):
        if own.n_stable <= max(MADE_BY_DRAW, n_control):
            break  # no clusters, whatever further controls say
        points = drawn.control[latent][held]  # on random directions: the cheapest control comes first
        if draw is not None:
            points = gaussian_points(evidence, geometry, latent, draw, len(held), generator)
        n_control = max(n_control, stable_groups(np.asarray(points), own.n_stable, generator))
    n_clusters = own.n_stable if own.n_stable > max(MADE_BY_DRAW, n_control) else 0
    kept = np.flatnonzero(own.stability >= SMALLEST_STABILITY)[:n_clusters]
    rank = np.full(len(own.stability) + 1, MISSING)  # the last entry is for points in no group, whose member is -1
    rank[kept] = np.arange(len(kept))
    members = np.full(len(drawn.places[latent]), MISSING)
    members[held] = rank[own.members]
    return LatentClusters(
        members=members,
        names=names.of([drawn.places[latent][members == cluster] for cluster in range(len(kept))]),
        stability=own.stability[kept],
        n_unstable=len(own.stability) - own.n_stable,
        n_stable=own.n_stable,
        n_control=n_control,
    )


def grouping(points: Float[Array, "m a"], generator: np.random.Generator) -> Grouping:
    """Group points and measure how stable each group is."""
    members = groups(points)
    n_groups = int(members.max(initial=-1)) + 1
    if not n_groups:
        return Grouping(members, np.empty(0))
    similar = [_similarities(points, members, n_groups, generator) for _ in range(RESAMPLES)]
    return Grouping(members, np.mean(similar, axis=0))


def groups(points: Float[Array, "m a"], share: float = 1.0) -> Int64[Array, " m"]:
    """The group of every point by HDBSCAN, largest group first; −1 for noise. Columns of zeros are no axes.

    `share` is that of all points, where these are a part of them; the smallest group shrinks with it.
    """
    from sklearn.cluster import HDBSCAN  # imported here: an optional package, and slow to import

    smallest = round(share * max(FEWEST_POINTS, SMALLEST_PART * len(points) / share))
    if len(points) < 2 * max(smallest, NEIGHBOURS):
        return np.full(len(points), -1)
    used = points[:, np.abs(points).max(axis=0) > 0].astype(np.float64)
    if not used.shape[1]:
        return np.full(len(points), -1)
    found = HDBSCAN(min_cluster_size=max(2, smallest), min_samples=NEIGHBOURS, copy=True).fit(used).labels_
    sizes = np.bincount(found[found >= 0])
    rank = np.empty(len(sizes) + 1, dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    rank[-1] = -1
    return np.asarray(rank[found])


def _similarities(
    points: Float[Array, "m a"], members: Int64[Array, " m"], n_groups: int, generator: np.random.Generator
) -> Float64[Array, " c"]:
    """Of each group, the largest Jaccard similarity with a group of one bootstrap resample.

    A point that is drawn twice counts once: two points in the same place would be the densest group of all.
    """
    rows = np.unique(generator.integers(0, len(points), len(points)))
    before, after = members[rows], groups(points[rows], share=len(rows) / len(points))
    shared = np.zeros((n_groups, int(after.max(initial=-1)) + 2))  # the last column is for points in no group
    np.add.at(shared, (before[before >= 0], after[before >= 0]), 1)
    sizes = np.bincount(after[after >= 0], minlength=shared.shape[1] - 1)
    union = shared.sum(1, keepdims=True) + sizes - shared[:, :-1]
    return np.asarray((shared[:, :-1] / np.maximum(1, union)).max(axis=1, initial=0))


def stable_groups(points: Float[Array, "m a"], limit: int, generator: np.random.Generator) -> int:
    """A bound on the number of stable groups: exact unless there are fewer than `limit` groups at all."""
    n_groups = int(groups(points).max(initial=-1)) + 1
    return n_groups if n_groups < limit else grouping(points, generator).n_stable


def control_tokens(evidence: Evidence, n_draws: int, seed: int) -> Float32[Array, "r n a"]:
    """Standard normal numbers from which Gaussian controls are made; a larger number of draws begins with the same."""
    shape = (n_draws, min(evidence.n_tokens, MOST_CONTROL_TOKENS), evidence.settings.n_axes)
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def gaussian_points(
    evidence: Evidence,
    geometry: DictionaryGeometry,
    latent: int,
    tokens: Float32[Array, "n a"],
    n_points: int,
    generator: np.random.Generator,
) -> Float32[Array, "m a"]:
    """Coordinates of points that the latent would have if tokens were Gaussian with their own covariance.

    `tokens` are standard normal numbers, of which `n_points` are drawn with weights (|z − rest| + ε)⁴.
    """
    shown = tokens.shape[1]
    axes = geometry.axes[latent, :, :shown].double().numpy()
    variances, directions = np.linalg.eigh(axes.T @ evidence.calibration.covariance @ axes)
    spread = (directions * np.sqrt(variances.clip(0))).astype(np.float32)
    points = tokens @ spread.T
    forms = geometry.axis_quadratic, geometry.axis_linear
    quadratic, linear = (each[latent, :shown].float().numpy() for each in forms)
    z = np.square(points) @ quadratic + points @ linear
    gated = (z + np.float32(geometry.constant[latent])).clip(min=0)
    away = gated if geometry.is_linear else np.abs(z - np.median(z))
    weights = np.square(np.square(away + np.float32(evidence.settings.epsilon)))
    keys = generator.standard_exponential(len(points), dtype=np.float32) / weights
    return np.asarray(points[np.argpartition(keys, min(n_points, len(keys)) - 1)[:n_points]])


class ClusterNames:
    """Names clusters by the tokens that they prefer to the rest of the text; case matters here, unlike in labels."""

    def __init__(self, text: TextRead) -> None:
        self.text = text
        self.groups: Spellings = spellings(text.vocabulary, text.frequencies(), fold_case=False)

    def of(self, clusters: list[Array]) -> list[str]:
        """A name for each cluster, given the places of its points; equal names get further tokens."""
        nothing = SignTokens([], 0.0)
        return distinct_labels([(self._tokens(places), nothing) for places in clusters])

    def _tokens(self, places: Int64[Array, " n"]) -> SignTokens:
        groups, ids = self.groups, self.text.token_ids
        previous = self.text.window(places, 1)[:, 0]
        previous = previous[previous != MISSING]
        own, before = (
            preferences(groups.group[ids[some]], np.ones(len(some)), groups.frequencies) for some in (places, previous)
        )
        return sign_tokens(own, before, groups, 1.0)
