"""Rows of a user's own tensor: measurements of flowers, without a model, a corpus or a hook point."""

from functools import cache

import numpy as np
import torch

from quadric import BilinearAutoencoder
from quadric.evidence import Evidence, EvidenceSettings
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.evidence.places import place_of
from quadric.evidence.text import ReadSequence
from quadric.model import Provenance
from quadric.model.lens import affine_lens, token_moments
from quadric.viewer.export import SiteInput

N_ROWS, D_MODEL, N_LATENTS = 400, 6, 10
KINDS = ("setosa", "versicolor", "virginica", "<b>unknown</b>")
REMARK = ", measured twice because the first reading was far off, in the greenhouse and not in the field," * 3
SETTINGS = EvidenceSettings(n_points=150, n_contexts=6, n_axes=6, window=1, n_lift_tokens=4)


class RowText:
    """Every row is a sequence of length one whose only token is the row's text."""

    def sequence(self, number: int) -> ReadSequence:
        only = np.array([number], dtype=np.int32)
        return ReadSequence(only, only)

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return [row_text(row).encode() for row in token_ids]


def row_text(row: int) -> str:
    """A short name, but for every ninth row a long remark."""
    return f"{KINDS[row % len(KINDS)]}{REMARK if row % 9 == 0 else ''} no. {row}"


def rows() -> torch.Tensor:
    """Four clusters, each stretched along its own direction."""
    generator = torch.Generator().manual_seed(0)
    kind = torch.arange(N_ROWS) % len(KINDS)
    centres = torch.randn(len(KINDS), D_MODEL, generator=generator)
    along = torch.randn(len(KINDS), D_MODEL, generator=generator)
    stretch = torch.randn(N_ROWS, 1, generator=generator)
    return centres[kind] + 0.6 * stretch * along[kind] + 0.15 * torch.randn(N_ROWS, D_MODEL, generator=generator)


def row_autoencoder(lens: str = "paper") -> BilinearAutoencoder:
    known = affine_lens(token_moments(rows())) if lens == "affine" else None
    return BilinearAutoencoder(
        d_model=D_MODEL, n_latents=N_LATENTS, n_hidden=16, prior="composite", mixing_density=0.2, seed=1, lens=known
    )


@cache
def row_evidence() -> Evidence:
    """Evidence as it is collected from a bare tensor: all of its provenance is unknown."""
    collector = Collector(row_autoencoder(), SETTINGS)
    numbers = np.arange(N_ROWS, dtype=np.int64)
    collector.calibrate(rows())
    # The window around a row is the row itself, so that no two contexts count as alike.
    collector.update(rows(), place_of(numbers, np.zeros_like(numbers)), numbers.astype(np.uint64))
    return evidence_of(collector, RowText(), Provenance(), [])


def row_site_input() -> SiteInput:
    return SiteInput(name="flowers", autoencoder=row_autoencoder(), evidence=row_evidence(), source=None)
