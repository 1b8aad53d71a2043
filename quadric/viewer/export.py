"""Export autoencoders with their evidence as a static site: `build_site` is the entry."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quadric._io.progress import Progress, no_progress
from quadric.evidence import DictionaryPatterns, Evidence, clusters, find_patterns, record
from quadric.evidence.calibration import METHOD
from quadric.evidence.labels.scoring import METHOD as LABEL_SCORES
from quadric.evidence.ranking import RANKING, RANKING_OF_DIRECTIONS, worth
from quadric.geometry import DictionaryGeometry, decompose, dictionary_geometry, with_signs
from quadric.geometry.centring import given_sha256
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.viewer import writer
from quadric.viewer.checking import HostingLimits
from quadric.viewer.comparisons import site_comparisons
from quadric.viewer.latent_pages import latent_records
from quadric.viewer.layout import describe, umap_layout
from quadric.viewer.patterns import latent_patterns, pattern_search
from quadric.viewer.schema import (
    TOKEN,
    Cluster,
    DictionaryEntry,
    LabelMethods,
    LabelScore,
    LatentClusters,
    LatentColumns,
    LatentLabel,
    PatternSearch,
    Quality,
    Sampling,
    SiteDictionary,
    SiteManifest,
    SiteText,
    unit_of,
)
from quadric.viewer.writer import check_replaceable, check_viewer_built, write_site

WEIGHT_EXPONENT = 4.0
NO_LENS = "none"
UNKNOWN = Quality(**{field.name: None for field in fields(Quality)})


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteInput:
    """One autoencoder with its evidence, and the name it has on the site."""

    name: str
    autoencoder: Autoencoder
    evidence: Evidence
    source: str | None
    """What `quadric.load` takes: a folder or a hub id. None for an autoencoder that was never saved."""
    source_autoencoder: str | None = None
    """Its name within a run of several."""
    quality: Quality = UNKNOWN
    geometry: DictionaryGeometry | None = None
    """Its geometry, if it was computed before."""


def build_site(
    inputs: Sequence[SiteInput],
    out: Path,
    *,
    title: str = "Quadric",
    with_map: bool = True,
    clustered: int = clusters.MOST_LATENTS,
    compared: bool = True,
    limits: HostingLimits | None = HostingLimits(),  # noqa: B008  (frozen)
    static: Path | None = None,
    on_progress: Progress = no_progress,
) -> SiteManifest:
    """Write a static site that shows every latent of some autoencoders.

    Args:
        inputs: The autoencoders with their evidence; those with the same text share it on disk.
        out: Folder of the site. An existing site there is replaced; any other folder that is not empty is refused.
        title: Title of the landing page.
        with_map: Whether to lay all latents out by UMAP, which needs `umap-learn`.
        clustered: How many latents per dictionary are searched for clusters of points, best first by the site's
            ranking, and tested for the paper's example geometries; 0 for none. Without `scikit-learn` none is.
        compared: Whether to match the latents of all pairs of dictionaries that read the same vectors.
        limits: Sizes that free static hosts accept; None for a site that stays on this machine.
        static: Folder of the built viewer; None for the one that comes with the package.
        on_progress: Called as "geometry", "clusters", "patterns", "comparisons" and "pages" advance; the first three
            for one dictionary after the other.

    Returns:
        The manifest that was written to data/site.json.

    Example:
        >>> one = SiteInput(name="mine", autoencoder=ae, evidence=evidence, source="runs/demo")
        >>> built = build_site([one], Path("site"), with_map=False)
    """
    check_replaceable(out)
    static = static or writer.STATIC
    check_viewer_built(static)
    texts, dictionaries = site_parts(inputs, with_map=with_map, clustered=clustered, on_progress=on_progress)
    named = [(each.name, each.autoencoder) for each in inputs]
    return write_site(
        out,
        title=title,
        texts=texts,
        dictionaries=dictionaries,
        comparisons=site_comparisons(named, on_progress) if compared else (),
        limits=limits,
        static=static,
        on_progress=on_progress,
    )


def site_parts(
    inputs: Sequence[SiteInput],
    *,
    seed: int = 0,
    with_map: bool = True,
    clustered: int = clusters.MOST_LATENTS,
    on_progress: Progress = no_progress,
) -> tuple[list[SiteText], list[SiteDictionary]]:
    """Texts and dictionaries for `write_site`, without writing anything; equal texts are shared."""
    if clustered < 0:
        raise ValueError(f"clustered={clustered} is negative; give how many latents to search for clusters, 0 for none")
    texts: list[SiteText] = []
    dictionaries = []
    for each in inputs:
        text = _shared(texts, site_text(each.evidence))
        geometry = geometry_shown(each, on_progress)
        found = patterns = None
        if clustered and clusters.is_available():
            evidence = each.evidence
            found = clusters.clusters_of(evidence, geometry, count=clustered, seed=seed, on_progress=on_progress)
            patterns = find_patterns(
                evidence, geometry, latents=list(found), clusters=found, seed=seed, on_progress=on_progress
            )
        dictionaries.append(site_dictionary(each, text.name, geometry, found, patterns, seed=seed, with_map=with_map))
    return texts, dictionaries


def _shared(texts: list[SiteText], text: SiteText) -> SiteText:
    """Return an equal text that is already listed, or list this one under an unused name."""
    for other in texts:
        if np.array_equal(other.token_ids, text.token_ids) and other.vocabulary == text.vocabulary:
            return other
    taken = {other.name for other in texts}
    texts.append(replace(text, name=unused_name(text.name, taken)))
    return texts[-1]


def unused_name(wanted: str, taken: set[str]) -> str:
    """Turn a name into one that can be a folder and a part of an address; a taken one gets a number."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted, flags=re.ASCII).strip("-._") or "unnamed"
    numbered = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def site_text(evidence: Evidence) -> SiteText:
    """The text of some evidence, named after its corpus; rows of a tensor are named "rows"."""
    text, unit = evidence.text, unit_of(evidence.provenance)
    return SiteText(
        name=unused_name(evidence.provenance.corpus or f"{unit}s", set()),
        token_ids=np.asarray(text.token_ids),
        sequence_starts=np.asarray(text.sequence_starts),
        documents=np.asarray(text.documents),
        vocabulary=text.vocabulary,
        attribution=evidence.corpus_licence,
        unit=unit,
    )


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
    close = geometry.neighbours
    layout = umap_layout(close, seed) if with_map else None
    return SiteDictionary(
        entry=_entry(
            given,
            text,
            None if layout is None else describe(close, seed),
            _searched(found, unit_of(given.evidence.provenance)),
            None if patterns is None else pattern_search(patterns, unit_of(given.evidence.provenance)),
        ),
        columns=_columns(given.evidence, geometry, layout),
        labels=_labels(given.evidence),
        latents=latent_records(given.evidence, geometry, found or {}),
        clusters={latent: _shown_clusters(each) for latent, each in (found or {}).items()},
        patterns={} if patterns is None else latent_patterns(patterns),
    )


def _searched(found: dict[int, clusters.LatentClusters] | None, unit: str) -> str | None:
    """Say in words which latents were searched for clusters, and how."""
    if found is None:
        return None
    return f"the {len(found):,} latents most worth a look were searched: {clusters.METHOD.replace(TOKEN, unit)}"


def _shown_clusters(found: clusters.LatentClusters) -> LatentClusters:
    sizes = np.bincount(found.members[found.members >= 0], minlength=len(found.names)).tolist()
    return LatentClusters(
        clusters=tuple(
            Cluster(name=name, n_points=size, stability=round(stability, 3))
            for name, size, stability in zip(found.names, sizes, found.stability.tolist(), strict=True)
        ),
        n_stable=found.n_stable,
        n_unstable=found.n_unstable,
        n_control=found.n_control,
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
    given: SiteInput, text: str, umap: str | None, searched: str | None, patterns: PatternSearch | None
) -> DictionaryEntry:
    autoencoder, evidence = given.autoencoder, given.evidence
    settings, written, calibration = evidence.settings, evidence.labels.from_model, evidence.calibration
    unit = unit_of(evidence.provenance)
    return DictionaryEntry(
        name=given.name,
        **_architecture(autoencoder),
        d_model=autoencoder.d_model,
        n_latents=autoencoder.n_latents,
        n_axes=settings.n_axes,
        centre_norm=float(torch.linalg.vector_norm(calibration.centring(autoencoder).centre)),
        source=given.source,
        source_autoencoder=given.source_autoencoder,
        text=text,
        umap=umap,
        clusters=None if searched is None else searched.replace(TOKEN, unit),
        patterns=patterns,
        provenance=autoencoder.provenance,
        sampling=Sampling(
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
        labels=LabelMethods(
            # The evidence describes its method for tokens; rows are labelled by the same one.
            offline=evidence.labels.method.replace(TOKEN, unit),
            written=None if written is None else _written_by(written),
            scored=None if evidence.labels.scores is None else LABEL_SCORES.replace(TOKEN, unit),
        ),
    )


def _architecture(autoencoder: Autoencoder) -> dict[str, Any]:
    """What an entry says about the kind of its dictionary."""
    if isinstance(autoencoder, BilinearAutoencoder):
        return {
            "is_linear": False,
            "prior": autoencoder.prior,
            "lens": autoencoder.lens.kind,
            "n_hidden": autoencoder.n_hidden,
            "mixing_density": autoencoder.mixing_density if autoencoder.prior == "composite" else None,
            "ranking": RANKING,
        }
    return {
        "is_linear": True,
        "prior": autoencoder.kind,
        "lens": NO_LENS,
        "n_hidden": autoencoder.n_latents,
        "mixing_density": None,
        "ranking": RANKING_OF_DIRECTIONS,
    }


def _columns(evidence: Evidence, geometry: DictionaryGeometry, layout: np.ndarray | None) -> LatentColumns:
    found, table = evidence.statistics, geometry.statistics()
    return LatentColumns(
        importance=table.importance.float().numpy(),
        effective_rank=table.effective_rank.float().numpy(),
        captured=table.captured.float().numpy(),
        support=table.support.float().numpy(),
        density=np.asarray(found.density),
        shape=geometry.readings.shape.float().numpy(),
        positive_share=np.asarray(found.positive_share),
        firing_share=np.asarray(found.firing_share),
        mean_square=np.asarray(found.mean_square),
        curvature=table.curvature.float().numpy(),
        measured_curvature=np.asarray(found.curvature),
        copy_of=table.copy_of.float().numpy(),
        worth=worth(evidence, geometry.redundancy, is_linear=geometry.is_linear),
        umap_x=None if layout is None else layout[:, 0].copy(),
        umap_y=None if layout is None else layout[:, 1].copy(),
    )


def _labels(evidence: Evidence) -> list[LatentLabel]:
    labels = evidence.labels
    written = labels.from_model.texts if labels.from_model else {}
    written_scores = labels.from_model.scores if labels.from_model else {}
    signs = zip(
        labels.texts, labels.positive, labels.negative, labels.scores or [None] * len(labels.texts), strict=True
    )
    return [
        LatentLabel(
            text=text,
            positive=" · ".join(ups),
            negative=" · ".join(downs),
            written=written.get(latent),
            score=_label_score(score),
            written_score=_label_score(written_scores.get(latent)),
        )
        for latent, (text, ups, downs, score) in enumerate(signs)
    ]


def _label_score(score: record.LabelScore | None) -> LabelScore | None:
    return None if score is None else LabelScore(**asdict(score))


def _written_by(labels: record.ModelLabels) -> str:
    unscored = len(labels.texts) - len(labels.scores)
    if not labels.scores:
        return f"{labels.model} ({labels.status})"
    return f"{labels.model} (which also judged them" + (f"; {unscored} are {labels.status})" if unscored else ")")
