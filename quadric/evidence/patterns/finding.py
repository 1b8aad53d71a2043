"""Which latents of a dictionary show the paper's four patterns: cone, cluster, interpolation and subset."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from quadric._io.progress import Progress, no_progress
from quadric.evidence.clusters import (
    GAUSSIAN_CONTROLS,
    UNAVAILABLE,
    ClusterNames,
    LatentClusters,
    control_tokens,
    gaussian_points,
    is_available,
    latent_clusters,
)
from quadric.evidence.labels import readable
from quadric.evidence.patterns.record import (
    CLUSTER,
    CONE,
    INTERPOLATION,
    SUBSET,
    DictionaryPatterns,
    PatternTest,
)
from quadric.evidence.patterns.statistics import (
    HEAVY_TAILS,
    SMALLEST_GAIN,
    Firing,
    Interpolation,
    Ray,
    Subset,
    corrected,
    excess,
    interpolation,
    leading_ray,
    p_values,
    subset,
    with_heavy_tails,
)
from quadric.evidence.record import MISSING, Evidence
from quadric.geometry import DictionaryGeometry

Array = np.ndarray

SHOWN_AXES = 3
"""Axes on which rays and paths are looked for: those that the paper's pictures show."""
CONE_CONTROLS = 4
"""Draws of Gaussian tokens with which each elongation is compared."""
RATE = 0.05
"""Share of the latents said to show a pattern that may be false."""


class _Measured(NamedTuple):
    """What one latent's points say before all latents are judged together."""

    ray: Ray
    ray_tokens: str
    elongations: list[float]
    """Of the controls; the last one has heavy tails."""
    clusters: LatentClusters
    interpolation: Interpolation
    subset: Subset


def find_patterns(
    evidence: Evidence,
    geometry: DictionaryGeometry,
    *,
    latents: Sequence[int] | None = None,
    clusters: Mapping[int, LatentClusters] = MappingProxyType({}),
    rate: float = RATE,
    seed: int = 0,
    on_progress: Progress = no_progress,
) -> DictionaryPatterns:
    """Test every distinct latent for the paper's four patterns.

    Cones, interpolations and subsets have p-values; those that pass a false discovery rate over all latents count. A
    cone must also be longer than wide, and the gain of a subset at least 0.1. Clusters are decided by their own
    controls, see `quadric.evidence.clusters`.

    Args:
        evidence: What data says about the latents.
        geometry: Their geometry about the centre of the evidence.
        latents: Which latents; all that are neither empty nor copies by default. Cones are judged by the controls of
            all of them together, so that a cone among fewer than five cannot be told from chance.
        clusters: What `clusters_of` found with the same seed, so that these latents are not searched again.
        rate: False discovery rate of every pattern that has p-values.
        seed: Seed of resamples, permutations and controls.
        on_progress: Called after every latent.

    Returns:
        The tests of every latent, with `counts()` over the dictionary and `best("cone")`.

    Example:
        >>> from quadric.evidence import find_patterns
        >>> found = find_patterns(evidence, geometry.dictionary_geometry(ae), latents=range(6))
        >>> sorted(found.counts())
        ['cluster', 'cone', 'interpolation', 'subset']
        >>> found.tests[3]["subset"].shown
        False
    """
    if not is_available():
        raise ValueError(UNAVAILABLE)
    if not 0 < rate < 1:
        raise ValueError(f"rate={rate} is not a share between 0 and 1; give e.g. 0.05")
    distinct = ~(geometry.redundancy.empty | geometry.redundancy.copy).numpy()
    chosen = [int(each) for each in (np.flatnonzero(distinct) if latents is None else latents)]
    for latent in chosen:
        if not 0 <= latent < evidence.n_latents:
            raise ValueError(f"latent {latent} is outside 0 … {evidence.n_latents - 1}; give latents of this evidence")
    tokens = control_tokens(evidence, CONE_CONTROLS, seed)
    draws = [*tokens, with_heavy_tails(tokens[0], HEAVY_TAILS, np.random.default_rng((seed, HEAVY_TAILS)))]
    names, measured = ClusterNames(evidence.text), []
    on_progress("patterns", 0, len(chosen), "")
    for latent in chosen:
        # The same generator as in clusters_of, so that both find the same clusters.
        groups = clusters.get(latent) or latent_clusters(
            evidence, geometry, latent, names, tokens[:GAUSSIAN_CONTROLS], np.random.default_rng((seed, latent))
        )
        generator = np.random.default_rng((seed, latent, 1))
        measured.append(_measure(evidence, geometry, latent, names, groups, draws, generator))
        on_progress("patterns", len(measured), len(chosen), "")
    return _judge(chosen, measured, evidence.text.vocabulary, rate)


def _measure(
    evidence: Evidence,
    geometry: DictionaryGeometry,
    latent: int,
    names: ClusterNames,
    clusters: LatentClusters,
    draws: list[Float32[Array, "n a"]],
    generator: np.random.Generator,
) -> _Measured:
    places = np.asarray(evidence.points.places[latent])
    held = places != MISSING
    points = np.asarray(evidence.points.coordinates[latent])[held][:, :SHOWN_AXES]
    ray = leading_ray(points)
    controls = (gaussian_points(evidence, geometry, latent, draw, len(points), generator) for draw in draws)
    return _Measured(
        ray=ray,
        elongations=[leading_ray(control[:, :SHOWN_AXES]).elongation for control in controls],
        ray_tokens=names.of([places[held][ray.members]])[0],
        clusters=clusters,
        interpolation=interpolation(points, evidence.text.token_ids[places[held]].astype(np.int64), generator),
        subset=subset(firing_of(evidence, latent), generator),
    )


def firing_of(evidence: Evidence, latent: int) -> Firing:
    """The points on which a latent fires, strongest first, with their neighbours in the text."""
    text, away = evidence.text, evidence.points.values[latent] - evidence.calibration.rest[latent]
    fires = np.flatnonzero(evidence.fires(latent))
    fires = fires[np.argsort(-np.abs(away[fires]), kind="stable")]
    places = evidence.points.places[latent][fires]
    around = text.window(places, 1)
    tokens = np.where(around == MISSING, MISSING, text.token_ids[around]).astype(np.int64)
    return Firing(
        tokens=tokens[:, 1],
        positive=away[fires] > 0,
        documents=text.documents[places].astype(np.int64),
        before=tokens[:, 0],
        after=tokens[:, 2],
    )


def _judge(latents: list[int], measured: list[_Measured], vocabulary: list[bytes], rate: float) -> DictionaryPatterns:
    """Decide for all latents together which tests pass."""
    controls = np.array([each.elongations for each in measured]).reshape(-1, CONE_CONTROLS + 1)
    cones = _cones([each.ray.elongation for each in measured], controls[:, :-1], rate)
    heavy_tailed = _cones(controls[:, -1].tolist(), controls[:, :-1], rate)
    between = _column([(each.interpolation.stretch, each.interpolation.p_value) for each in measured], -np.inf, rate)
    senses = _column([(each.subset.gain, each.subset.p_value) for each in measured], SMALLEST_GAIN, rate)
    tests = {}
    for row, (latent, each) in enumerate(zip(latents, measured, strict=True)):
        clusters = tuple(each.clusters.names)
        tests[latent] = {
            CONE: replace(cones[row], tokens=(each.ray_tokens,)),
            CLUSTER: PatternTest(
                statistic=float(len(clusters)), p_value=np.nan, corrected=np.nan, shown=bool(clusters), tokens=clusters
            ),
            INTERPOLATION: replace(between[row], tokens=_texts(each.interpolation.kinds, vocabulary)),
            SUBSET: replace(senses[row], tokens=_texts((each.subset.token,), vocabulary)),
        }
    n_heavy_tailed = sum(each.shown for each in heavy_tailed)
    return DictionaryPatterns(tests=tests, rate=rate, n_heavy_tailed_cones=n_heavy_tailed)


def _cones(elongations: list[float], controls: Float64[Array, "n r"], rate: float) -> list[PatternTest]:
    """Judge elongations by their excess over the controls; a cone is also longer than wide."""
    own = np.array(elongations, dtype=np.float64)
    compared = excess(own, controls)
    p = p_values(compared.own, compared.by_chance)
    return _column(list(zip(own.tolist(), p.tolist(), strict=True)), np.nextafter(1.0, 2.0), rate)


def _column(found: list[tuple[float, float]], smallest: float, rate: float) -> list[PatternTest]:
    """One test per latent from statistics and p-values; those that pass the rate and are not too small are shown."""
    statistics, p = np.array(found, dtype=np.float64).reshape(-1, 2).T
    after = corrected(p)
    shown = (after <= rate) & (statistics >= smallest)
    return [
        PatternTest(statistic=float(one), p_value=float(two), corrected=float(three), shown=bool(four))
        for one, two, three, four in zip(statistics, p, after, shown, strict=True)
    ]


def _texts(tokens: Sequence[int | None] | None, vocabulary: list[bytes]) -> tuple[str, ...]:
    return tuple(readable(vocabulary[token]) for token in tokens or () if token is not None)
