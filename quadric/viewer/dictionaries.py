"""One dictionary of a site: an autoencoder with its evidence, as the objects that are written."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from quadric._io.progress import Progress, no_progress
from quadric.evidence import Evidence, clusters, record
from quadric.evidence.calibration import METHOD
from quadric.evidence.patterns.record import (
    CHANCE,
    MEANINGS,
    PATTERNS,
    STATISTICS,
    DictionaryPatterns,
    PatternTest,
    controls_of,
    is_exceeded,
)
from quadric.evidence.ranking import RANKING, RANKING_OF_DIRECTIONS, worth
from quadric.evidence.scoring import METHOD as LABEL_SCORES
from quadric.geometry import DictionaryGeometry, Neighbours, decompose, dictionary_geometry, with_signs
from quadric.geometry.centring import given_sha256
from quadric.geometry.dictionary import as_forms
from quadric.model import Dictionary
from quadric.viewer import schema
from quadric.viewer.latent_pages import latent_records
from quadric.viewer.schema import TOKEN, Quality, SiteDictionary, unit_of

WEIGHT_EXPONENT = 4.0
NO_LENS = "none"
UNKNOWN = Quality(**{field.name: None for field in fields(Quality)})
SEARCHED = "the {n:,} latents most worth a look were searched: {how}"
BEST = 5
"""Examples of each pattern that the landing page links to."""
MOST_TOKENS = 9
"""Clusters that are named in a list of examples; the panel of a latent's clusters names all."""
FEWEST_LATENTS = 8
"""With fewer latents a map adds nothing to the list of neighbours."""
MAP_METHOD = (
    "UMAP of each latent's {count} nearest by subspace overlap ‖UᵢᵀUⱼ‖²/√(rᵢrⱼ), distance 1 − overlap, random start, "
    "seed {seed}; made from weights about the centre of the tokens, not from activations"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteInput:
    """One autoencoder with its evidence, and the name it has on the site."""

    name: str
    autoencoder: Dictionary
    evidence: Evidence
    source: str | None
    """What `quadric.load` takes: a folder or a hub id. None for an autoencoder that was never saved."""
    source_autoencoder: str | None = None
    """Its name within a run of several."""
    quality: Quality = UNKNOWN
    geometry: DictionaryGeometry | None = None
    """Its geometry, if it was computed before."""

    def __post_init__(self) -> None:
        self.evidence.check_weights(self.autoencoder)


def site_dictionary(
    given: SiteInput,
    text: str,
    geometry: DictionaryGeometry,
    found: dict[int, clusters.LatentClusters] | None,
    patterns: DictionaryPatterns | None = None,
    *,
    seed: int,
    with_map: bool,
) -> SiteDictionary:
    """Everything about one autoencoder; the records of its latents are made while they are written."""
    layout = umap_layout(geometry.neighbours, seed) if with_map else None
    count = geometry.neighbours.latents.shape[1]
    umap = None if layout is None else MAP_METHOD.format(count=count, seed=seed)
    return SiteDictionary(
        entry=_entry(given, text, umap, found, patterns),
        columns=_columns(given.evidence, geometry, layout),
        labels=_labels(given.evidence),
        latents=latent_records(given.evidence, geometry, found or {}),
        clusters={latent: _shown_clusters(each) for latent, each in (found or {}).items()},
        patterns={} if patterns is None else latent_patterns(patterns),
    )


def geometry_shown(given: SiteInput, on_progress: Progress = no_progress) -> DictionaryGeometry:
    """The geometry of one dictionary about the centre of its evidence, in the signs of its evidence."""
    signs = torch.from_numpy(np.array(given.evidence.calibration.signs))
    geometry = with_signs(_geometry(given, on_progress), signs)
    n_axes = given.evidence.settings.n_axes
    if n_axes <= geometry.axes.shape[2]:
        return geometry
    more = decompose(given.autoencoder, n_axes, centre=given.evidence.calibration.tokens_centre())
    names = ("axes", "axis_quadratic", "axis_linear", "axis_kind")
    return replace(geometry, **{name: getattr(with_signs(more, signs), name) for name in names})


def _geometry(given: SiteInput, on_progress: Progress) -> DictionaryGeometry:
    """The geometry that was given, if it is about the centre of the evidence, else a new one."""
    centre = given.evidence.calibration.tokens_centre()
    if given.geometry is not None:
        given.geometry.check_weights(given.autoencoder)
        if given.geometry.centre_sha256 == given_sha256(given.autoencoder, centre):
            return given.geometry
    return dictionary_geometry(given.autoencoder, on_progress, moments=centre)


def _entry(
    given: SiteInput,
    text: str,
    umap: str | None,
    found: dict[int, clusters.LatentClusters] | None,
    patterns: DictionaryPatterns | None,
) -> schema.DictionaryEntry:
    autoencoder, evidence = given.autoencoder, given.evidence
    settings, written, calibration = evidence.settings, evidence.labels.from_model, evidence.calibration
    unit = unit_of(evidence.provenance)
    return schema.DictionaryEntry(
        name=given.name,
        is_linear=autoencoder.is_linear,
        prior=autoencoder.kind,
        lens=NO_LENS if autoencoder.is_linear else autoencoder.lens.kind,
        n_hidden=as_forms(autoencoder).n_hidden,
        mixing_density=autoencoder.facts().get("mixing_density"),
        ranking=RANKING_OF_DIRECTIONS if autoencoder.is_linear else RANKING,
        d_model=autoencoder.d_model,
        n_latents=autoencoder.n_latents,
        n_axes=settings.n_axes,
        centre_norm=float(torch.linalg.vector_norm(calibration.centring(autoencoder).centre)),
        source=given.source,
        source_autoencoder=given.source_autoencoder,
        text=text,
        umap=umap,
        clusters=None if found is None else SEARCHED.format(n=len(found), how=clusters.METHOD.replace(TOKEN, unit)),
        patterns=None if patterns is None else pattern_search(patterns, unit),
        provenance=autoencoder.provenance,
        sampling=schema.Sampling(
            n_tokens=evidence.n_tokens,
            n_points=settings.n_points,
            weight_exponent=WEIGHT_EXPONENT,
            epsilon=settings.epsilon,
            seed=settings.seed,
            firing_threshold=f"|z − rest| > {settings.firing_rms:g} · root mean square of z − rest",
            positive_share="Σ(z − rest)²",
            quantile_probabilities=tuple(evidence.statistics.probabilities),
            control_seed=settings.seed,
            linear_control=METHOD.format(n=f"{calibration.n_tokens:,}", unit=unit),
        ),
        quality=given.quality,
        labels=schema.LabelMethods(
            # The evidence describes its method for tokens; rows are labelled by the same one.
            offline=evidence.labels.method.replace(TOKEN, unit),
            written=None if written is None else _written_by(written),
            scored=None if evidence.labels.scores is None else LABEL_SCORES.replace(TOKEN, unit),
        ),
    )


def _columns(evidence: Evidence, geometry: DictionaryGeometry, layout: np.ndarray | None) -> schema.LatentColumns:
    found, table = evidence.statistics, geometry.statistics()
    measured = ("density", "positive_share", "firing_share", "mean_square")
    of_weights = ("importance", "effective_rank", "captured", "support", "curvature", "copy_of")
    return schema.LatentColumns(
        **{name: getattr(table, name).float().numpy() for name in of_weights},
        **{name: np.asarray(getattr(found, name)) for name in measured},
        shape=geometry.readings.shape.float().numpy(),
        measured_curvature=np.asarray(found.curvature),
        worth=worth(evidence, geometry.redundancy, is_linear=geometry.is_linear),
        umap_x=None if layout is None else layout[:, 0].copy(),
        umap_y=None if layout is None else layout[:, 1].copy(),
    )


def _labels(evidence: Evidence) -> list[schema.LatentLabel]:
    labels = evidence.labels
    written = labels.from_model.texts if labels.from_model else {}
    written_scores = labels.from_model.scores if labels.from_model else {}
    signs = zip(
        labels.texts, labels.positive, labels.negative, labels.scores or [None] * len(labels.texts), strict=True
    )
    return [
        schema.LatentLabel(
            text=text,
            positive=" · ".join(ups),
            negative=" · ".join(downs),
            written=written.get(latent),
            score=_label_score(score),
            written_score=_label_score(written_scores.get(latent)),
        )
        for latent, (text, ups, downs, score) in enumerate(signs)
    ]


def _label_score(score: record.LabelScore | None) -> schema.LabelScore | None:
    return None if score is None else schema.LabelScore(**asdict(score))


def _written_by(labels: record.ModelLabels) -> str:
    unscored = len(labels.texts) - len(labels.scores)
    if not labels.scores:
        return f"{labels.model} ({labels.status})"
    return f"{labels.model} (which also judged them" + (f"; {unscored} are {labels.status})" if unscored else ")")


def _shown_clusters(found: clusters.LatentClusters) -> schema.LatentClusters:
    sizes = np.bincount(found.members[found.members >= 0], minlength=len(found.names)).tolist()
    return schema.LatentClusters(
        clusters=tuple(
            schema.Cluster(name=name, n_points=size, stability=round(stability, 3))
            for name, size, stability in zip(found.names, sizes, found.stability.tolist(), strict=True)
        ),
        n_stable=found.n_stable,
        n_unstable=found.n_unstable,
        n_control=found.n_control,
    )


def pattern_search(found: DictionaryPatterns, unit: str = TOKEN) -> schema.PatternSearch:
    """Every pattern with its counts, controls and best examples, for the manifest; `unit` is what a point is."""
    method = (
        f"the {len(found.tests):,} latents most worth a look were tested, on the three axes that are shown first; "
        f"p-values are corrected for the number of latents, so that at most {found.rate:.0%} of those that pass are "
        "expected to be chance, if the notion of chance is right"
    ).replace("%", " %")
    return schema.PatternSearch(method=method, kinds=tuple(_pattern_kind(found, name, unit) for name in PATTERNS))


def latent_patterns(found: DictionaryPatterns) -> dict[int, tuple[schema.LatentPattern, ...]]:
    """The tests of every latent, in the order of PATTERNS."""
    return {
        latent: tuple(_latent_pattern(name, tests[name]) for name in PATTERNS)
        for latent, tests in sorted(found.tests.items())
    }


def _pattern_kind(found: DictionaryPatterns, name: str, unit: str) -> schema.PatternKind:
    return schema.PatternKind(
        name=name,
        meaning=MEANINGS[name].replace(TOKEN, unit),
        statistic=STATISTICS[name].replace(TOKEN, unit),
        chance=CHANCE[name].replace(TOKEN, unit),
        n_shown=found.counts()[name],
        n_tested=found.n_tested()[name],
        controls=tuple(
            schema.PatternControl(
                name=each.name.replace(TOKEN, unit),
                n_shown=each.shown,
                n_tested=each.tested,
                is_own=each.is_own,
                is_exceeded=is_exceeded(each, found, name),
            )
            for each in controls_of(found, name)
        ),
        best=tuple(found.best(name, BEST)),
    )


def _latent_pattern(name: str, test: PatternTest) -> schema.LatentPattern:
    return schema.LatentPattern(
        name=name,
        statistic=_known(test.statistic),
        p_value=_known(test.corrected),
        shown=test.shown,
        tokens=test.tokens[:MOST_TOKENS] if test.statistic == test.statistic else (),
    )


def _known(number: float) -> float | None:
    return round(number, 5) if number == number else None


def umap_layout(neighbours: Neighbours, seed: int) -> Float32[np.ndarray, "k 2"] | None:
    """Two coordinates per latent; None where there are too few latents for a map."""
    n_latents = len(neighbours.latents)
    if n_latents < FEWEST_LATENTS:
        return None
    itself = np.arange(n_latents)[:, None]
    nearest = np.concatenate([itself, neighbours.latents.numpy()], axis=1)
    distances = np.concatenate([np.zeros_like(itself), 1 - neighbours.overlaps.numpy()], axis=1).clip(0, 1)
    with (
        _threads_of_torch_kept(),
        warnings.catch_warnings(),
    ):  # about optional packages that are not installed, and about isolated latents
        warnings.simplefilter("ignore")
        umap = _umap()(
            n_neighbors=nearest.shape[1],
            precomputed_knn=(nearest.astype(np.int32), distances.astype(np.float32), None),
            # Random start: the default spectral one needs the rows themselves, and here only neighbours are known.
            init=np.random.default_rng(seed).uniform(-10, 10, (n_latents, 2)).astype(np.float32),
            random_state=seed,
            n_jobs=1,
        )
        found = umap.fit_transform(np.zeros((n_latents, 1), dtype=np.float32))
    return np.nan_to_num(np.asarray(found, dtype=np.float32))


@contextmanager
def _threads_of_torch_kept() -> Iterator[None]:
    """The first UMAP of a process sets the number of OpenMP threads, which is torch's too."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _umap() -> Any:
    try:
        from umap import UMAP
    except ImportError:
        raise ValueError("the map of latents needs umap-learn; pip install 'quadric[site]', or pass --no-map") from None
    return UMAP
