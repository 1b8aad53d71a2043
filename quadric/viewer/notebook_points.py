"""The points of a notebook picture: from evidence, or from rows of a tensor."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from quadric.geometry import Form
from quadric.geometry.centring import as_read, prepared
from quadric.geometry.latent_frames import LatentFrame
from quadric.model import Autoencoder
from quadric.model.linear import LinearAutoencoder
from quadric.model.objective import unit_tokens
from quadric.viewer.schema import NOTHING, ROW, unit_of

MOST_AXES = 8
MOST_ROWS = 5_000
"""A page of 5,000 points takes about 1 MB."""
ROWS_AT_ONCE = 65_536
"""Rows whose z is computed together, to bound the memory of the float64 copies."""
CONTROL_AXES = 3
ROUNDING = 1e-6
"""Variation of z, relative to its size, that counts as none."""
RIDGE = 0.1
"""Of the linear control, as a multiple of d times the mean variance of a coordinate: nothing for many rows, and enough
for few that noise is not fitted."""


@runtime_checkable
class PointsOfLatents(Protocol):
    """The part of `quadric.evidence.Evidence` that is drawn."""

    @property
    def points(self) -> Any:
        """places, values, coordinates, linear and control, one row per latent."""

    @property
    def calibration(self) -> Any:
        """signs and rest of every latent, and tokens_centre()."""

    @property
    def statistics(self) -> Any:
        """curvature of every latent."""

    @property
    def text(self) -> Any:
        """token_ids and vocabulary."""

    @property
    def provenance(self) -> Any:
        """Where the activations came from."""


def no_points(frame: LatentFrame) -> dict[str, Any]:
    """Axes without points."""
    empty: list[list[float]] = [[] for _ in range(frame.axes.shape[1])]
    note = "From the weights alone: axes, spectrum and level set. Pass evidence or a tensor of rows to see points."
    nothing: dict[str, Any] = {"values": [], "control": [[], [], []], "linear": [], "tokens": [], "texts": []}
    return nothing | {"coordinates": empty, "rest": frame.constant, "note": note}


def points_of_evidence(evidence: PointsOfLatents, latent: int) -> dict[str, Any]:
    """The points that evidence holds for a latent, with their tokens."""
    places = np.asarray(evidence.points.places[latent])
    kept = places != NOTHING
    kinds, tokens = np.unique(np.asarray(evidence.text.token_ids[places[kept]]), return_inverse=True)
    values = np.asarray(evidence.points.values[latent])[kept]
    return {
        "values": _rounded(values),
        "coordinates": _rounded(np.asarray(evidence.points.coordinates[latent])[kept].T),
        "control": _rounded(np.asarray(evidence.points.control[latent])[kept].T),
        "linear": _rounded(np.asarray(evidence.points.linear[latent])[kept]),
        "rest": float(evidence.calibration.rest[latent]),
        "measured_curvature": float(evidence.statistics.curvature[latent]),
        "tokens": tokens.tolist(),
        "texts": [evidence.text.vocabulary[kind].decode(errors="replace") for kind in kinds],
        "reach": float(np.abs(values).max(initial=0.0)),
        "unit": unit_of(evidence.provenance),
        "note": f"{kept.sum():,} {unit_of(evidence.provenance)}s; strong activations are over-represented.",
    }


@torch.no_grad()
def points_of_rows(
    frame: LatentFrame, subject: Form | tuple[Autoencoder, int], rows: Float[Tensor, "n d"], seed: int = 0
) -> dict[str, Any]:
    """Rows of a tensor, scaled to unit length: z, and coordinates about the centre on the axes of a latent or form."""
    values = torch.cat([_values(subject, part) for part in torch.split(rows, ROWS_AT_ONCE)])
    rest = float(values.median()) if _has_rest(subject) else 0.0
    chosen = strongest_and_sampled(values - rest, MOST_ROWS, seed)
    v = frame.centring.coordinates(_read(subject, rows[chosen.to(rows.device)]).double().cpu())
    return {
        "values": _rounded(values[chosen].numpy()),
        "coordinates": _rounded((v @ frame.axes).mT.numpy()),
        "control": _rounded((v @ _random_axes(v.shape[1], seed)).mT.numpy()),
        "linear": _rounded((v @ best_linear_direction(v, values[chosen])).numpy()),
        "rest": rest,
        "tokens": list(range(len(chosen))),
        "texts": [f"row {row}" for row in chosen.tolist()],
        "reach": float(values.abs().max()),
        "unit": ROW,
        "note": _note(len(chosen), len(rows)),
    }


def best_linear_direction(v: Float[Tensor, "n d"], values: Float[Tensor, " n"]) -> Float[Tensor, " d"]:
    """Unit vector along which a linear function predicts z best over the rows drawn; zero where z does not vary."""
    centred = v - v.mean(0)
    ridge = RIDGE * float(centred.square().mean()) * v.shape[1] + 1e-12
    gram = centred.mT @ centred + ridge * torch.eye(v.shape[1], dtype=v.dtype)
    steps = (values - values.mean()).to(v)
    if float(steps.abs().max()) <= ROUNDING * float(values.abs().max()):
        return torch.zeros_like(v[0])
    slopes: Tensor = torch.linalg.solve(gram, centred.mT @ steps)
    length: Tensor = torch.linalg.vector_norm(slopes)
    return slopes / length


def _read(subject: Form | tuple[Autoencoder, int], rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    if isinstance(subject, Form):
        return unit_tokens(rows)
    return as_read(subject[0], prepared(subject[0], rows))


def _values(subject: Form | tuple[Autoencoder, int], rows: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    if isinstance(subject, Form):
        return subject(unit_tokens(rows).to(subject.left.device)).cpu()
    autoencoder, latent = subject
    return autoencoder.encode(prepared(autoencoder, rows))[:, latent].double().cpu()


def _has_rest(subject: Form | tuple[Autoencoder, int]) -> bool:
    """Whether z has a median of its own; a form is about the origin, and a direction rests where it does not fire."""
    return not isinstance(subject, Form) and not isinstance(subject[0], LinearAutoencoder)


def strongest_and_sampled(values: Float[Tensor, " n"], most: int, seed: int) -> Int64[Tensor, " m"]:
    """Indices of at most `most` rows by |value| descending: half the strongest, half sampled from the others."""
    order = values.abs().argsort(descending=True, stable=True)
    if len(order) <= most:
        return order
    strongest, rest = order[: most // 2], order[most // 2 :]
    generator = torch.Generator().manual_seed(seed)
    sampled = torch.randperm(len(rest), generator=generator)[: most - most // 2].sort().values
    return torch.cat([strongest, rest[sampled.to(rest.device)]])


def _note(shown: int, total: int) -> str:
    if shown == total:
        return f"All {total:,} rows, scaled to unit length."
    strongest = MOST_ROWS // 2
    return (
        f"{shown:,} of {total:,} rows, scaled to unit length: the {strongest:,} with the largest |z − rest| and "
        f"{shown - strongest:,} drawn at random from the rest."
    )


def _random_axes(width: int, seed: int) -> Float[Tensor, "d 3"]:
    """Three random orthonormal directions, padded with zeros where the width is smaller."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(width, min(CONTROL_AXES, width), generator=generator, dtype=torch.float64)
    frame = torch.linalg.qr(noise).Q
    return torch.nn.functional.pad(frame, (0, CONTROL_AXES - frame.shape[1]))


def _rounded(numbers: np.ndarray) -> list[Any]:
    return list(np.round(numbers.astype(np.float64), 5).tolist())
