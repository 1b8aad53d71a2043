"""What a site shows about each latent: points, contexts, spectrum and neighbours."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from quadric.evidence import Evidence, TextRead
from quadric.geometry import LatentStatistics, Neighbours
from quadric.site.schema import CONTEXT_REACH, EIGENVECTOR, MOST_EIGENVALUES, NO_AXIS, NOTHING, LatentRecord

Array = np.ndarray


def latent_records(evidence: Evidence, table: LatentStatistics, close: Neighbours) -> Iterator[LatentRecord]:
    """Yield the page of every latent, in order."""
    for latent in range(evidence.n_latents):
        yield latent_record(evidence, table, close, latent)


def latent_record(evidence: Evidence, table: LatentStatistics, close: Neighbours, latent: int) -> LatentRecord:
    """The page of one latent; its points include its strongest contexts."""
    shown = _points_with_contexts(evidence, latent)
    eigenvalues = table.eigenvalues[latent]
    found, n_axes = evidence.statistics, evidence.settings.n_axes
    return LatentRecord(
        latent=latent,
        eigenvalues=eigenvalues[eigenvalues != 0][:MOST_EIGENVALUES].float().numpy(),
        rank=int((eigenvalues != 0).sum()),
        total_weight=eigenvalues.abs().sum().item(),
        axis_quadratic=np.resize(np.append(eigenvalues.float().numpy(), np.zeros(n_axes)), n_axes).astype(np.float32),
        axis_linear=np.zeros(n_axes, dtype=np.float32),
        axis_kind=np.where(np.arange(n_axes) < int((eigenvalues != 0).sum()), EIGENVECTOR, NO_AXIS).astype(np.int32),
        constant=0.0,
        rest=0.0,
        curvature=1.0,
        measured_curvature=1.0,
        places=shown.places,
        tokens=evidence.text.token_ids[shown.places],
        values=shown.values,
        coordinates=shown.coordinates,
        control=shown.control,
        linear=np.zeros(len(shown.places), dtype=np.float32),
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
    """The sampled points and the contexts that were not sampled, by |z| descending, without duplicates."""
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
