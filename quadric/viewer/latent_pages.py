"""What a site shows about each latent: points, contexts, spectrum and neighbours."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from quadric.evidence import Evidence, TextRead
from quadric.evidence.clusters import LatentClusters
from quadric.geometry import DictionaryGeometry
from quadric.viewer.schema import CONTEXT_REACH, MOST_EIGENVALUES, NOTHING, LatentRecord

Array = np.ndarray


def latent_records(
    evidence: Evidence, geometry: DictionaryGeometry, clusters: Mapping[int, LatentClusters]
) -> Iterator[LatentRecord]:
    """Yield the page of every latent, in order; the geometry is that in the signs of the evidence."""
    for latent in range(evidence.n_latents):
        yield latent_record(evidence, geometry, latent, clusters.get(latent))


def latent_record(
    evidence: Evidence, geometry: DictionaryGeometry, latent: int, clusters: LatentClusters | None = None
) -> LatentRecord:
    """The page of one latent; its points include its strongest contexts, which belong to no cluster if not drawn."""
    shown = _points_with_contexts(evidence, latent, clusters)
    eigenvalues, close = geometry.eigenvalues[latent], geometry.neighbours
    found, n_axes = evidence.statistics, evidence.settings.n_axes
    return LatentRecord(
        latent=latent,
        eigenvalues=eigenvalues[eigenvalues != 0][:MOST_EIGENVALUES].float().numpy(),
        rank=int((eigenvalues != 0).sum()),
        total_weight=eigenvalues.abs().sum().item(),
        axis_quadratic=geometry.axis_quadratic[latent, :n_axes].float().numpy(),
        axis_linear=geometry.axis_linear[latent, :n_axes].float().numpy(),
        axis_kind=geometry.axis_kind[latent, :n_axes].int().numpy(),
        constant=float(geometry.constant[latent]),
        rest=float(evidence.calibration.rest[latent]),
        curvature=float(geometry.readings.curvature[latent]),
        measured_curvature=float(found.curvature[latent]),
        places=shown.places,
        tokens=evidence.text.token_ids[shown.places],
        values=shown.values,
        coordinates=shown.coordinates,
        control=shown.control,
        linear=shown.linear,
        clusters=shown.clusters,
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
    linear: Array
    clusters: Int32[Array, " m"]
    contexts: Int32[Array, "2 c"]


def _points_with_contexts(evidence: Evidence, latent: int, clusters: LatentClusters | None) -> _Shown:
    """The sampled points and the contexts that were not sampled, by |z − rest| descending, without duplicates."""
    drawn, strongest = evidence.points, evidence.contexts
    context_places = strongest.places[latent].ravel()
    places = np.concatenate([drawn.places[latent], context_places])
    values = np.concatenate([drawn.values[latent], strongest.values[latent].ravel()])
    distinct, first = np.unique(places, return_index=True)
    first = first[distinct != NOTHING]
    away = np.abs(values - evidence.calibration.rest[latent])
    chosen = first[np.lexsort((places[first], -away[first]))]

    def both(name: str) -> Array:
        one, other = getattr(drawn, name)[latent], getattr(strongest, name)[latent]
        return np.asarray(np.concatenate([one, other.reshape(-1, *one.shape[1:])])[chosen])

    members = np.full(len(places), NOTHING, dtype=np.int32)
    if clusters is not None:
        members[: len(clusters.members)] = clusters.members
    rank = {place: number for number, place in enumerate(places[chosen].tolist())}
    contexts = [rank.get(place, NOTHING) for place in context_places.tolist()]
    return _Shown(
        places=places[chosen],
        values=values[chosen],
        coordinates=both("coordinates"),
        control=both("control"),
        linear=both("linear"),
        clusters=members[chosen],
        contexts=np.array(contexts, dtype=np.int32).reshape(2, -1),
    )


def _windows(text: TextRead, shown: _Shown) -> Int32[Array, "2 c 9"]:
    """The tokens around each context, within its sequence."""
    places = np.where(
        shown.contexts == NOTHING, NOTHING, shown.places[shown.contexts] if len(shown.places) else NOTHING
    )
    around = places[..., None] + np.arange(-CONTEXT_REACH, CONTEXT_REACH + 1)
    number = np.searchsorted(text.sequence_starts, places, side="right") - 1
    ends = np.append(text.sequence_starts[1:], len(text.token_ids))
    inside = (around >= text.sequence_starts[number][..., None]) & (around < ends[number][..., None])
    inside &= (places != NOTHING)[..., None]
    return np.where(inside, text.token_ids[np.where(inside, around, 0)], NOTHING).astype(np.int32)
