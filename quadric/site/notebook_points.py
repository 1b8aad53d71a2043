"""The points of a notebook picture: from evidence, or from rows of a tensor."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from quadric.autoencoders.objective import check_tokens, unit_tokens
from quadric.geometry import Form
from quadric.site.schema import NOTHING, unit_of

MOST_AXES = 8
MOST_ROWS = 5_000
"""A page of 5,000 points takes about 1 MB."""
ROWS_AT_ONCE = 65_536
"""Rows whose z is computed together, to bound the memory of the float64 copies."""
CONTROL_AXES = 3


@runtime_checkable
class PointsOfLatents(Protocol):
    """The part of `quadric.evidence.Evidence` that is drawn."""

    @property
    def points(self) -> Any:
        """places, values, coordinates and control, one row per latent."""

    @property
    def text(self) -> Any:
        """token_ids and vocabulary."""

    @property
    def provenance(self) -> Any:
        """Where the activations came from."""


def no_points(form: Form) -> dict[str, Any]:
    """Axes without points."""
    rank = len(form.eigenpairs().eigenvalues)
    empty: list[list[float]] = [[] for _ in range(min(rank, MOST_AXES))]
    note = "From the weights alone: axes, spectrum and level set. Pass evidence or a tensor of rows to see points."
    return {"values": [], "coordinates": empty, "control": [[], [], []], "tokens": [], "texts": [], "note": note}


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
        "tokens": tokens.tolist(),
        "texts": [evidence.text.vocabulary[kind].decode(errors="replace") for kind in kinds],
        "reach": float(np.abs(values).max(initial=0.0)),
        "note": f"{kept.sum():,} {unit_of(evidence.provenance)}s; strong activations are over-represented.",
    }


@torch.no_grad()
def points_of_rows(form: Form, rows: Float[Tensor, "n d"], seed: int = 0) -> dict[str, Any]:
    """Rows of a tensor, scaled to unit length: z = xᵀWx, and coordinates on the leading eigenvectors of W."""
    check_tokens(rows, form.d_model)
    device = form.left.device
    values = torch.cat([form(unit_tokens(part.to(device))) for part in torch.split(rows, ROWS_AT_ONCE)])
    chosen = strongest_and_sampled(values, MOST_ROWS, seed)
    unit = unit_tokens(rows[chosen.to(rows.device)].to(device)).double()
    return {
        "values": _rounded(values[chosen].cpu().numpy()),
        "coordinates": _rounded((unit @ _leading_axes(form)).mT.cpu().numpy()),
        "control": _rounded((unit @ _random_axes(form, seed)).mT.cpu().numpy()),
        "tokens": list(range(len(chosen))),
        "texts": [f"row {row}" for row in chosen.tolist()],
        "reach": float(values.abs().max()),
        "note": _note(len(chosen), len(rows)),
    }


def strongest_and_sampled(values: Float[Tensor, " n"], most: int, seed: int) -> Int64[Tensor, " m"]:
    """Indices of at most `most` rows by |z| descending: half the strongest, half sampled from the rest."""
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
        f"{shown:,} of {total:,} rows, scaled to unit length: the {strongest:,} with the largest |z| and "
        f"{shown - strongest:,} drawn at random from the rest."
    )


def _leading_axes(form: Form) -> Float[Tensor, "d a"]:
    """Leading eigenvectors, each with its largest entry positive, as in evidence: their sign is arbitrary."""
    axes = form.eigenpairs().eigenvectors[:, :MOST_AXES]
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True)) if axes.numel() else axes.new_ones(1, 0)
    return torch.where(largest < 0, -axes, axes)


def _random_axes(form: Form, seed: int) -> Float[Tensor, "d 3"]:
    """Three random orthonormal directions, padded with zeros where the width is smaller."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(form.d_model, min(CONTROL_AXES, form.d_model), generator=generator, dtype=torch.float64)
    frame = torch.linalg.qr(noise).Q
    return torch.nn.functional.pad(frame, (0, CONTROL_AXES - frame.shape[1])).to(form.left.device)


def _rounded(numbers: np.ndarray) -> list[Any]:
    return list(np.round(numbers.astype(np.float64), 5).tolist())
