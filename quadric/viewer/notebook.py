"""A picture of one latent or form for notebooks: a page that contains everything it needs."""

import base64
import hashlib
import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from quadric._io.files import write_atomically
from quadric.evidence import Evidence
from quadric.geometry import Centre, Form
from quadric.geometry.centring import as_read, has_own_centre, prepared
from quadric.geometry.quadrics import LatentFrame, form_frame, latent_frame
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.lens import token_moments
from quadric.model.objective import check_tokens, unit_tokens
from quadric.viewer import writer
from quadric.viewer.schema import MOST_EIGENVALUES, NOTHING, ROW, unit_of

FRAME_HEIGHT = 760
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


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture that a notebook shows when a cell ends with it."""

    title: str
    page: str
    """A whole HTML page that loads nothing."""

    def __repr__(self) -> str:
        return f"Picture({self.title!r}, {len(self.page):,} characters; save(path) writes it as HTML)"

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame, which can neither read nor change the notebook."""
        return (
            f'<iframe sandbox="allow-scripts" title="Quadric" width="100%" height="{FRAME_HEIGHT}" '
            f'style="border:0" srcdoc="{html.escape(self.page, quote=True)}"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Write the page as a file that opens in any browser."""
        write_atomically(Path(path), self.page.encode())


def show(subject: Dictionary | Form, latent: int | None = None, data: Evidence | Tensor | None = None) -> Picture:
    """Draw a latent or any quadratic form: axes, spectrum and level set, and points where data is given.

    Args:
        subject: Any dictionary, or a form such as `quadric.geometry.latent_form(ae, 3) - other`.
        latent: Which latent of the autoencoder to draw; left out for a form.
        data: Evidence draws the points it holds for the latent. A tensor (n, d) draws its rows, scaled to unit length
            and projected on the axes: at most 5,000, half of them those with the largest |z − rest|. A form is drawn
            in place of the latent's own. Without data the picture shows the weights alone. A latent of a raw dictionary
            is drawn about the centre of its evidence or of the rows, else about the origin; an affine lens has its own.

    Returns:
        A picture that notebooks display and `save` writes as an HTML file.

    Example:
        >>> quadric.show(ae, 12, evidence)
        Picture(...)
        >>> quadric.show(ae, 12, x).save("latent.html")
        >>> difference = geometry.latent_form(ae, 12) - geometry.latent_form(ae, 3)
        >>> quadric.show(difference)
        Picture('Form', ... characters; save(path) writes it as HTML)
    """
    writer.check_viewer_built()
    title = "Form" if isinstance(subject, Form) else f"Latent {latent}"
    drawn = _of_form(subject, data) if isinstance(subject, Form) else _of_latent(subject, latent, data)
    return Picture(title, _page({"title": title} | drawn))


def _of_form(form: Form, data: Evidence | Tensor | None) -> dict[str, Any]:
    frame = form_frame(form, MOST_AXES)
    if data is None:
        return _shape(frame) | _no_points(frame)
    if not isinstance(data, Tensor):
        raise ValueError("evidence holds points of latents, not of forms; give the rows as a tensor (n, d)")
    check_tokens(data, form.d_model)
    values = torch.cat([form(unit_tokens(rows).to(form.left.device)).cpu() for rows in torch.split(data, ROWS_AT_ONCE)])
    return _shape(frame) | _points_of_rows(frame, data, values, 0.0, unit_tokens)


@torch.no_grad()
def _of_latent(autoencoder: Dictionary, latent: int | None, data: Evidence | Tensor | None) -> dict[str, Any]:
    n_latents, d_model = autoencoder.n_latents, autoencoder.d_model
    if latent is None or not 0 <= latent < n_latents:
        raise ValueError(f"latent={latent} is not one of the {n_latents}; give 0 to {n_latents - 1}")
    is_linear = {"is_linear": autoencoder.is_linear}
    if isinstance(data, Tensor):
        check_tokens(data, d_model)
        about_rows = latent_frame(autoencoder, latent, MOST_AXES, _centre_of_rows(autoencoder, data))
        parts = (prepared(autoencoder, rows) for rows in torch.split(data, ROWS_AT_ONCE))
        values = torch.cat([autoencoder.encode(rows)[:, latent].cpu().double() for rows in parts])
        rest = 0.0 if autoencoder.is_linear else float(values.median())  # a direction rests where it does not fire
        points = _points_of_rows(
            about_rows, data, values, rest, lambda rows: as_read(autoencoder, prepared(autoencoder, rows))
        )
        return is_linear | _shape(about_rows, _origin(autoencoder, "row")) | points
    if data is None:
        frame = latent_frame(autoencoder, latent, MOST_AXES)
        return is_linear | _shape(frame, _origin(autoencoder, None)) | _no_points(frame)
    if not isinstance(data, Evidence):
        raise TypeError(f"data is {type(data).__name__}; give Evidence, a tensor (n, {d_model}) or a Form")
    data.check_weights(autoencoder)
    n_axes = data.points.coordinates.shape[-1]
    about_tokens = latent_frame(autoencoder, latent, n_axes, data.calibration.tokens_centre())
    signed = about_tokens.with_sign(float(data.calibration.signs[latent]))
    shape = _shape(signed, _origin(autoencoder, unit_of(data.provenance)))
    return is_linear | shape | _points_of_evidence(data, latent)


def _centre_of_rows(autoencoder: Dictionary, rows: Tensor) -> Centre:
    """Mean and covariance of rows as the dictionary reads them."""
    if autoencoder.is_linear:
        read = exact(as_read(autoencoder, prepared(autoencoder, rows)))
        return Centre(read.mean(0), torch.cov(read.mT, correction=0))
    moments = token_moments(rows)
    return Centre(moments.mean, moments.covariance)


def _origin(autoencoder: Dictionary, unit: str | None) -> str:
    """What coordinates are measured from, in words."""
    if has_own_centre(autoencoder):
        return "the mean token"
    if autoencoder.is_linear and unit is None:
        return "the decoder's bias"
    return "the origin" if unit is None else f"the mean {unit}"


def _shape(frame: LatentFrame, origin: str = "the origin") -> dict[str, Any]:
    eigenvalues = frame.eigenvalues.numpy()
    return {
        "latent": 0,  # the page is about one form, so its index is never shown
        "eigenvalues": eigenvalues[:MOST_EIGENVALUES].tolist(),
        "rank": len(eigenvalues),
        "total_weight": float(np.abs(eigenvalues).sum()),
        "reach": float(np.abs(eigenvalues).max(initial=0.0)),
        "axis_quadratic": frame.axis_quadratic.tolist(),
        "axis_linear": frame.axis_linear.tolist(),
        "axis_kind": frame.axis_kind.tolist(),
        "constant": frame.constant,
        "curvature": frame.curvature,
        "measured_curvature": frame.curvature,
        "origin": origin,
    }


def _no_points(frame: LatentFrame) -> dict[str, Any]:
    """Axes without points."""
    empty: list[list[float]] = [[] for _ in range(frame.axes.shape[1])]
    note = "From the weights alone: axes, spectrum and level set. Pass evidence or a tensor of rows to see points."
    nothing: dict[str, Any] = {"values": [], "control": [[], [], []], "linear": [], "tokens": [], "texts": []}
    return nothing | {"coordinates": empty, "rest": frame.constant, "note": note}


def _points_of_evidence(evidence: Evidence, latent: int) -> dict[str, Any]:
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


def _points_of_rows(
    frame: LatentFrame,
    rows: Float[Tensor, "n d"],
    values: Float[Tensor, " n"],
    rest: float,
    read: Callable[[Tensor], Tensor],
    seed: int = 0,
) -> dict[str, Any]:
    """Rows of a tensor as they are read: z, and coordinates about the centre on the axes of a latent or form."""
    chosen = strongest_and_sampled(values - rest, MOST_ROWS, seed)
    v = frame.centring.coordinates(read(rows[chosen.to(rows.device)]).cpu().double())
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


def _page(data: dict[str, Any]) -> str:
    script, style = ((writer.STATIC / name).read_text(encoding="utf-8") for name in ("notebook.js", "notebook.css"))
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    # "<" is written as an escape, so that no text can end the script element.
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{html.escape(data['title'])}</title><style>{style}</style></head><body>"
        f'<div id="app"></div><script type="application/json" id="data">{content}</script>'
        f"<script>{script}</script></body></html>"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
