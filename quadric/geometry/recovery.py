"""Whether one latent recovers a known subspace: principal angles between it and the latent's leading eigenvectors.

With U (d×r) the latent's r leading eigenvectors and B (d×r) a basis of the subspace, both orthonormal, the cosines of
the principal angles are the singular values of UᵀB, and

    overlap = ‖UᵀB‖_F² / r = mean cos²θ

is 1 only if the subspaces coincide. A latent of lower rank has fewer vectors: a single direction reaches 1/r at most.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.geometry.dictionary import require_bilinear
from quadric.geometry.spectra import spectra


class Match(NamedTuple):
    """The latent assigned to a subspace, and how close it comes."""

    latent: int
    overlap: float
    """Mean cos² of the principal angles."""
    angle: float
    """The largest principal angle, in degrees; 90 where the latent has too few eigenvectors."""


@torch.no_grad()
def leading_eigenvectors(autoencoder: Autoencoder, count: int) -> Float[Tensor, "k d count"]:
    """The leading eigenvectors of every latent by |λ|; zero beyond its rank."""
    bilinear = require_bilinear(autoencoder)
    found = torch.zeros(bilinear.n_latents, bilinear.d_model, count, dtype=torch.float64)
    for latents, eigenvalues, eigenvectors in spectra(bilinear):
        kept = min(count, eigenvalues.shape[-1])
        there = (eigenvalues[:, None, :kept] != 0).double()
        found[latents.cpu(), :, :kept] = (eigenvectors[..., :kept] * there).cpu()
    return found


def unit_directions(vectors: Float[Tensor, "k d"]) -> Float[Tensor, "k d 1"]:
    """Single directions, as one-dimensional subspaces; an empty one stays empty."""
    norms = torch.linalg.vector_norm(vectors.double(), dim=-1, keepdim=True)
    return (vectors.double() / torch.where(norms > 0, norms, 1))[..., None]


def overlaps(latents: Float[Tensor, "k d s"], subspace: Float[Tensor, "d r"]) -> Float[Tensor, " k"]:
    """‖U_iᵀB‖_F² / r of every latent, for its leading r vectors."""
    r = subspace.shape[1]
    return (latents[..., :r].mT @ subspace.to(latents)).square().sum((1, 2)) / r


def largest_angle(vectors: Float[Tensor, "d s"], subspace: Float[Tensor, "d r"]) -> float:
    """The largest principal angle between the leading r vectors and the subspace, in degrees."""
    r = subspace.shape[1]
    if vectors.shape[1] < r:
        return 90.0
    cosines = torch.linalg.svdvals(vectors[:, :r].mT @ subspace.to(vectors))
    return math.degrees(math.acos(min(1.0, cosines.min().item())))


def match_subspaces(latents: Float[Tensor, "k d s"], subspaces: list[Tensor]) -> list[Match]:
    """One latent per subspace, none used twice, that maximize the sum of overlaps."""
    from scipy.optimize import linear_sum_assignment  # imported here: the import takes longer than most reports

    if len(subspaces) > len(latents):
        raise ValueError(f"{len(subspaces)} subspaces exceed {len(latents)} latents; none could be used twice")
    scores = torch.stack([overlaps(latents, subspace) for subspace in subspaces])
    rows, columns = linear_sum_assignment(scores.numpy(), maximize=True)
    return [
        Match(latent, scores[row, latent].item(), largest_angle(latents[latent], subspaces[row]))
        for row, latent in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def best_span(directions: Float[Tensor, "k d 1"], subspace: Float[Tensor, "d r"]) -> Float[Tensor, "d r"]:
    """The span of the r single directions that lie most inside the subspace, made orthonormal."""
    r = subspace.shape[1]
    chosen = overlaps(directions, subspace).topk(r).indices
    basis: Tensor = torch.linalg.qr(directions[chosen, :, 0].mT).Q
    return basis
