"""The viewer's picture of one latent in a notebook: one frame that holds everything it needs."""

import base64
import hashlib
import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from quadric._files import write_atomically
from quadric.autoencoders import Autoencoder
from quadric.geometry import spectrum
from quadric.geometry.dictionary import require_bilinear
from quadric.site.schema import MOST_EIGENVALUES, NOTHING
from quadric.site.writer import STATIC, check_viewer_built

FRAME_HEIGHT = 760


@runtime_checkable
class PointsOfLatents(Protocol):
    """The part of `quadric.evidence.Evidence` that is drawn."""

    @property
    def points(self) -> Any:
        """places, values, coordinates and control, a row a latent."""

    @property
    def text(self) -> Any:
        """token_ids and vocabulary."""


@dataclass(frozen=True)
class Picture:
    """What a notebook shows when a cell ends with it."""

    page: str
    """A whole HTML page that loads nothing."""

    def _repr_html_(self) -> str:
        """The page in a frame of its own: it can neither read nor change the notebook."""
        return (
            f'<iframe sandbox="allow-scripts" title="Quadric" width="100%" height="{FRAME_HEIGHT}" '
            f'style="border:0" srcdoc="{html.escape(self.page, quote=True)}"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Keep the page as a file that opens in any browser."""
        write_atomically(Path(path), self.page.encode())


def show(autoencoder: Autoencoder, latent: int, evidence: PointsOfLatents | None = None) -> Picture:
    """Draw a latent: axes, spectrum and level set from the weights; with evidence, its tokens as well."""
    bilinear = require_bilinear(autoencoder)
    if not 0 <= latent < bilinear.n_latents:
        raise ValueError(f"latent={latent} is not one of the {bilinear.n_latents}; give 0 to {bilinear.n_latents - 1}")
    check_viewer_built()
    eigenvalues = spectrum(bilinear, latent).eigenvalues.double().cpu().numpy()
    shape = {
        "title": f"Latent {latent}",
        "latent": latent,
        "eigenvalues": eigenvalues[:MOST_EIGENVALUES].tolist(),
        "rank": len(eigenvalues),
        "total_weight": float(np.abs(eigenvalues).sum()),
        "reach": float(np.abs(eigenvalues).max(initial=0.0)),
    }
    points = _no_points(len(eigenvalues)) if evidence is None else _points(evidence, latent)
    return Picture(_page(shape | points))


def _no_points(rank: int) -> dict[str, Any]:
    empty: list[list[float]] = [[] for _ in range(min(rank, 8))]
    note = "From the weights alone: axes, spectrum and level set. Pass evidence to see tokens."
    return {"values": [], "coordinates": empty, "control": [[], [], []], "tokens": [], "texts": [], "note": note}


def _points(evidence: PointsOfLatents, latent: int) -> dict[str, Any]:
    places = np.asarray(evidence.points.places[latent])
    kept = places != NOTHING
    ids = np.asarray(evidence.text.token_ids[places[kept]])
    kinds, tokens = np.unique(ids, return_inverse=True)
    values = np.asarray(evidence.points.values[latent])[kept]
    return {
        "values": _rounded(values),
        "coordinates": _rounded(np.asarray(evidence.points.coordinates[latent])[kept].T),
        "control": _rounded(np.asarray(evidence.points.control[latent])[kept].T),
        "tokens": tokens.tolist(),
        "texts": [evidence.text.vocabulary[kind].decode(errors="replace") for kind in kinds],
        "reach": float(np.abs(values).max(initial=0.0)),
        "note": f"{kept.sum()} tokens; strong activations are over-represented.",
    }


def _rounded(numbers: np.ndarray) -> list[Any]:
    return list(np.round(numbers.astype(np.float64), 5).tolist())


def _page(data: dict[str, Any]) -> str:
    script, style = ((STATIC / name).read_text(encoding="utf-8") for name in ("notebook.js", "notebook.css"))
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    # "<" only as an escape, so that no token can end the element.
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
