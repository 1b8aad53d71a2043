"""What a site shows about each latent: points, contexts, spectrum and neighbours."""

from collections.abc import Iterator, Mapping

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
    places, shown = _points_with_contexts(evidence, latent, clusters)
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
        places=places,
        tokens=evidence.text.token_ids[places],
        **shown,
        context_tokens=_windows(evidence.text, places, shown["contexts"]),
        neighbours=close.latents[latent].int().numpy(),
        overlaps=close.overlaps[latent].numpy(),
        quantiles=np.asarray(found.quantiles[latent]),
        lift_tokens=np.asarray(found.lift_tokens[latent]),
        lifts=np.asarray(found.lifts[latent]),
    )


def _points_with_contexts(
    evidence: Evidence, latent: int, clusters: LatentClusters | None
) -> tuple[Int64[Array, " m"], dict[str, Array]]:
    """The sampled points and the contexts that were not sampled, by |z − rest| descending, without duplicates."""
    drawn, strongest = evidence.points, evidence.contexts
    context_places = strongest.places[latent].ravel()
    places = np.concatenate([drawn.places[latent], context_places])
    values = np.concatenate([drawn.values[latent], strongest.values[latent].ravel()])
    distinct, first = np.unique(places, return_index=True)
    first = first[distinct != NOTHING]
    away = np.abs(values - evidence.calibration.rest[latent])
    chosen = first[np.lexsort((places[first], -away[first]))]

    columns = {"values": values[chosen]}
    for name in ("coordinates", "control", "linear"):
        one, other = getattr(drawn, name)[latent], getattr(strongest, name)[latent]
        columns[name] = np.concatenate([one, other.reshape(-1, *one.shape[1:])])[chosen]
    members = np.full(len(places), NOTHING, dtype=np.int32)
    if clusters is not None:
        members[: len(clusters.members)] = clusters.members
    rank = {place: number for number, place in enumerate(places[chosen].tolist())}
    contexts = [rank.get(place, NOTHING) for place in context_places.tolist()]
    columns |= {"clusters": members[chosen], "contexts": np.array(contexts, dtype=np.int32).reshape(2, -1)}
    return places[chosen], columns


def _windows(text: TextRead, points: Int64[Array, " m"], contexts: Int32[Array, "2 c"]) -> Int32[Array, "2 c 9"]:
    """The tokens around each context, within its sequence."""
    places = np.where(contexts == NOTHING, NOTHING, points[contexts] if len(points) else NOTHING)
    around = places[..., None] + np.arange(-CONTEXT_REACH, CONTEXT_REACH + 1)
    number = np.searchsorted(text.sequence_starts, places, side="right") - 1
    ends = np.append(text.sequence_starts[1:], len(text.token_ids))
    inside = (around >= text.sequence_starts[number][..., None]) & (around < ends[number][..., None])
    inside &= (places != NOTHING)[..., None]
    return np.where(inside, text.token_ids[np.where(inside, around, 0)], NOTHING).astype(np.int32)
