"""From an autoencoder and its evidence to what a site holds, latent by latent."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int32, Int64

from quadric.autoencoders import BilinearAutoencoder
from quadric.evidence import Evidence, TextRead
from quadric.geometry import DictionaryGeometry, LatentStatistics, Neighbours, dictionary_geometry
from quadric.site.layout import describe, umap_layout
from quadric.site.schema import (
    CONTEXT_REACH,
    MOST_EIGENVALUES,
    NOTHING,
    SHAPES,
    DictionaryEntry,
    LabelMethods,
    LatentColumns,
    LatentLabel,
    LatentRecord,
    Quality,
    Sampling,
    SiteDictionary,
    SiteText,
)

Array = np.ndarray

WEIGHT_EXPONENT = 4.0
UNKNOWN = Quality(error=None, density=None, cross_entropy_recovered=None, n_tokens=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteInput:
    """One autoencoder with its evidence, and what it is called."""

    name: str
    autoencoder: BilinearAutoencoder
    evidence: Evidence
    source: str
    """What `quadric.load` takes."""
    source_autoencoder: str | None = None
    """Its name within a run of several."""
    quality: Quality = UNKNOWN
    geometry: DictionaryGeometry | None = None
    """Its geometry, if it was computed before."""


def site_parts(
    inputs: Sequence[SiteInput],
    *,
    seed: int = 0,
    with_map: bool = True,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[SiteText], list[SiteDictionary]]:
    """Texts and dictionaries for `write_site`; autoencoders that were shown the same text share it.

    `on_progress` is called three times per latent: after its decomposition, its neighbours and its statistics.
    """
    texts: list[SiteText] = []
    dictionaries = []
    for each in inputs:
        text = _shared(texts, site_text(each.evidence))
        dictionaries.append(site_dictionary(each, text.name, seed=seed, with_map=with_map, on_progress=on_progress))
    return texts, dictionaries


def _shared(texts: list[SiteText], text: SiteText) -> SiteText:
    """The same text if it is there already, else this one under a name of its own."""
    for other in texts:
        if np.array_equal(other.token_ids, text.token_ids) and other.vocabulary == text.vocabulary:
            return other
    taken = {other.name for other in texts}
    texts.append(replace(text, name=unused_name(text.name, taken)))
    return texts[-1]


def unused_name(wanted: str, taken: set[str]) -> str:
    """A name that can be a folder and a part of an address, with a number where it is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted, flags=re.ASCII).strip("-._") or "unnamed"
    numbered = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def site_text(evidence: Evidence) -> SiteText:
    """The text of some evidence, under the name of its corpus."""
    text = evidence.text
    return SiteText(
        name=unused_name(evidence.provenance.corpus or "text", set()),
        token_ids=np.asarray(text.token_ids),
        sequence_starts=np.asarray(text.sequence_starts),
        documents=np.asarray(text.documents),
        vocabulary=text.vocabulary,
        attribution=evidence.corpus_licence,
    )


def site_dictionary(
    given: SiteInput, text: str, *, seed: int, with_map: bool, on_progress: Callable[[int], None]
) -> SiteDictionary:
    """Everything about one autoencoder; its latents are made one by one as they are written."""
    geometry = _geometry(given, on_progress)
    table, close = geometry.statistics(), geometry.neighbours
    layout = umap_layout(close, seed) if with_map else None
    return SiteDictionary(
        entry=_entry(given, text, None if layout is None else describe(close, seed)),
        columns=_columns(given.evidence, table, layout),
        labels=_labels(given.evidence),
        latents=latent_records(given.evidence, table, close),
    )


def _geometry(given: SiteInput, on_progress: Callable[[int], None]) -> DictionaryGeometry:
    """The geometry of one dictionary; `on_progress` is called three times per latent in all."""
    n_latents = given.autoencoder.n_latents
    if given.geometry is None:
        found = dictionary_geometry(given.autoencoder, on_progress)
        on_progress(n_latents)
        return found
    given.geometry.check_weights(given.autoencoder)
    on_progress(3 * n_latents)
    return given.geometry


def _entry(given: SiteInput, text: str, umap: str | None) -> DictionaryEntry:
    autoencoder, evidence = given.autoencoder, given.evidence
    settings, written = evidence.settings, evidence.labels.from_model
    return DictionaryEntry(
        name=given.name,
        prior=autoencoder.prior,
        d_model=autoencoder.d_model,
        n_hidden=autoencoder.n_hidden,
        n_latents=autoencoder.n_latents,
        n_axes=settings.n_axes,
        mixing_density=autoencoder.mixing_density if autoencoder.prior == "composite" else None,
        source=given.source,
        source_autoencoder=given.source_autoencoder,
        text=text,
        umap=umap,
        provenance=autoencoder.provenance,
        sampling=Sampling(
            n_tokens=evidence.n_tokens,
            n_points=settings.n_points,
            weight_exponent=WEIGHT_EXPONENT,
            epsilon=settings.epsilon,
            seed=settings.seed,
            firing_threshold=f"|z| > {settings.firing_rms:g} · root mean square of z",
            positive_share="Σz²",
            quantile_probabilities=tuple(evidence.statistics.probabilities),
            control_seed=settings.seed,
        ),
        quality=given.quality,
        labels=LabelMethods(
            offline=evidence.labels.method,
            written=None if written is None else f"{written.model} ({written.status})",
        ),
    )


def _columns(evidence: Evidence, table: LatentStatistics, layout: Array | None) -> LatentColumns:
    found = evidence.statistics
    return LatentColumns(
        importance=table.importance.float().numpy(),
        effective_rank=table.effective_rank.float().numpy(),
        captured=table.captured.float().numpy(),
        support=table.support.float().numpy(),
        density=np.asarray(found.density),
        shape=np.array([SHAPES.index(shape) for shape in table.shape], dtype=np.float32),
        positive_share=np.asarray(found.positive_share),
        firing_share=np.asarray(found.firing_share),
        mean_square=np.asarray(found.mean_square),
        umap_x=None if layout is None else layout[:, 0].copy(),
        umap_y=None if layout is None else layout[:, 1].copy(),
    )


def _labels(evidence: Evidence) -> list[LatentLabel]:
    labels = evidence.labels
    written = labels.from_model.texts if labels.from_model else {}
    signs = zip(labels.texts, labels.positive, labels.negative, strict=True)
    return [
        LatentLabel(text=text, positive=" · ".join(ups), negative=" · ".join(downs), written=written.get(latent))
        for latent, (text, ups, downs) in enumerate(signs)
    ]


def latent_records(evidence: Evidence, table: LatentStatistics, close: Neighbours) -> Iterator[LatentRecord]:
    """The page of every latent, in order."""
    for latent in range(evidence.n_latents):
        yield latent_record(evidence, table, close, latent)


def latent_record(evidence: Evidence, table: LatentStatistics, close: Neighbours, latent: int) -> LatentRecord:
    """One latent's page: its points with the strongest contexts among them."""
    shown = _points_with_contexts(evidence, latent)
    eigenvalues = table.eigenvalues[latent]
    found = evidence.statistics
    return LatentRecord(
        latent=latent,
        eigenvalues=eigenvalues[eigenvalues != 0][:MOST_EIGENVALUES].float().numpy(),
        rank=int((eigenvalues != 0).sum()),
        total_weight=eigenvalues.abs().sum().item(),
        places=shown.places,
        tokens=evidence.text.token_ids[shown.places],
        values=shown.values,
        coordinates=shown.coordinates,
        control=shown.control,
        contexts=shown.contexts,
        context_tokens=_windows(evidence.text, shown),
        neighbours=close.latents[latent].int().numpy(),
        overlaps=close.overlaps[latent].numpy(),
        quantiles=np.asarray(found.quantiles[latent]),
        lift_tokens=np.asarray(found.lift_tokens[latent]),
        lifts=np.asarray(found.lifts[latent]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shown:
    places: Int64[Array, " m"]
    values: Array
    coordinates: Array
    control: Array
    contexts: Int32[Array, "2 c"]


def _points_with_contexts(evidence: Evidence, latent: int) -> _Shown:
    """The points drawn and the contexts that were not, by |z| descending, each token once."""
    drawn, strongest = evidence.points, evidence.contexts
    context_places = strongest.places[latent].ravel()
    places = np.concatenate([drawn.places[latent], context_places])
    values = np.concatenate([drawn.values[latent], strongest.values[latent].ravel()])
    distinct, first = np.unique(places, return_index=True)
    first = first[distinct != NOTHING]
    chosen = first[np.lexsort((places[first], -np.abs(values[first])))]

    def both(name: str) -> Array:
        one, other = getattr(drawn, name)[latent], getattr(strongest, name)[latent]
        return np.asarray(np.concatenate([one, other.reshape(-1, other.shape[-1])])[chosen])

    rank = {place: number for number, place in enumerate(places[chosen].tolist())}
    contexts = [rank.get(place, NOTHING) for place in context_places.tolist()]
    return _Shown(
        places=places[chosen],
        values=values[chosen],
        coordinates=both("coordinates"),
        control=both("control"),
        contexts=np.array(contexts, dtype=np.int32).reshape(2, -1),
    )


def _windows(text: TextRead, shown: _Shown) -> Int32[Array, "2 c 9"]:
    """The tokens around each context, never beyond its sequence."""
    places = np.where(
        shown.contexts == NOTHING, NOTHING, shown.places[shown.contexts] if len(shown.places) else NOTHING
    )
    around = places[..., None] + np.arange(-CONTEXT_REACH, CONTEXT_REACH + 1)
    number = np.searchsorted(text.sequence_starts, places, side="right") - 1
    ends = np.append(text.sequence_starts[1:], len(text.token_ids))
    inside = (around >= text.sequence_starts[number][..., None]) & (around < ends[number][..., None])
    inside &= (places != NOTHING)[..., None]
    return np.where(inside, text.token_ids[np.where(inside, around, 0)], NOTHING).astype(np.int32)
