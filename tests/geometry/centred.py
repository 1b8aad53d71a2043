"""Latents about a centre, written out: materialized matrices, one latent at a time."""

from typing import NamedTuple

import torch
from torch import Tensor

from quadric import BilinearAutoencoder
from quadric.geometry import Centre
from quadric.model.lens import AffineLens
from tests import zoo

ORIGIN, GIVEN, LENS = "origin", "centre", "lens"
SETTINGS = [
    (variety, where) for variety in zoo.VARIETIES for where in ((LENS,) if "affine" in variety else (ORIGIN, GIVEN))
]
"""Every variety about the origin and about a given centre, or about its lens's own."""


class Parts(NamedTuple):
    """z = vᵀQv + c·bᵀv + c²a."""

    quadratic: Tensor
    linear: Tensor
    constant: Tensor
    scale: float
    covariance: Tensor


def a_centre(d: int = 12) -> Centre:
    """A mean of norm 0.7 and a covariance with directions of very different variance."""
    generator = torch.Generator().manual_seed(8)
    mean = torch.randn(d, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q
    return Centre(0.7 * mean / mean.norm(), basis @ torch.logspace(-3, -1, d, dtype=torch.float64).diag() @ basis.mT)


def centre_for(where: str) -> Centre | None:
    return a_centre() if where == GIVEN else None


def parts(ae: BilinearAutoencoder, latent: int, centre: Centre | None) -> Parts:
    matrix, d = ae.form(latent).double(), ae.d_model
    if isinstance(ae.lens, AffineLens):
        own = ae.lens
        scale, spread = float(own.constant), own.covariance.double()
        return Parts(matrix[:-1, :-1], 2 * matrix[:-1, -1], matrix[-1, -1], scale, spread)
    if centre is None:
        nothing = matrix.new_zeros(())
        return Parts(matrix, matrix.new_zeros(d), nothing, 1.0, torch.eye(d).double() / d)
    length = float(centre.mean.norm())
    m = centre.mean / length
    p = torch.eye(d).double() - m.outer(m)
    covariance = torch.eye(d).double() * (1 - length**2) / d if centre.covariance is None else centre.covariance
    return Parts(p @ matrix @ p, 2 * p @ matrix @ m, m @ matrix @ m, length, covariance)


def curvature(found: Parts) -> float:
    product = found.quadratic @ found.covariance
    curved = 2 * float((product @ product).trace())
    total = curved + found.scale**2 * float(found.linear @ found.covariance @ found.linear)
    return curved / total if total else 0.0


def by_size(values: Tensor) -> Tensor:
    """Eigenvalues by |λ| descending."""
    return values[values.abs().argsort(descending=True, stable=True)]
