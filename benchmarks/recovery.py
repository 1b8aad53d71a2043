"""Whether one latent recovers a known subspace: principal angles between it and the latent's leading eigenvectors.

With U (d×r) the latent's r leading eigenvectors and B (d×r) a basis of the subspace, both orthonormal, the cosines of
the principal angles are the singular values of UᵀB, and

    overlap = ‖UᵀB‖_F² / r = mean cos²θ

is 1 only if the subspaces coincide. A latent of lower rank has fewer vectors: a single direction reaches 1/r at most.

Read about the mean token μ (see `quadric.geometry.quadrics`), a latent also has a linear part, and a quadric has a
centre. A circle lies in the leading eigenvectors of Q alone. A paraboloid's axis, or a direction, may be in the linear
part, so there U holds the directions along which z varies most: the leading eigenvectors of

    E ∇z∇zᵀ = 4σ²Q² + c²bbᵀ    for tokens with variance σ² in every direction.

The centre in unit tokens is μ − (c/2)Q⁺b, with Q⁺ from the leading eigenpairs, one per curved dimension.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.quadrics import AffineForm


class Match(NamedTuple):
    """The latent assigned to a subspace, and how close it comes."""

    latent: int
    overlap: float
    """Mean cos² of the principal angles."""
    angle: float
    """The largest principal angle, in degrees; 90 where the latent has too few eigenvectors."""


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
    scores = torch.stack([overlaps(latents, subspace) for subspace in subspaces])
    return [
        Match(latent, scores[row, latent].item(), largest_angle(latents[latent], subspaces[row]))
        for row, latent in enumerate(_assigned(scores))
    ]


def _assigned(scores: Float[Tensor, "m k"]) -> list[int]:
    """A different column for every row, with the largest sum of scores."""
    from scipy.optimize import linear_sum_assignment  # imported here: the import takes longer than most reports

    if len(scores) > scores.shape[1]:
        raise ValueError(f"{len(scores)} subspaces exceed {scores.shape[1]} latents; none could be used twice")
    columns: list[int] = linear_sum_assignment(scores.numpy(), maximize=True)[1].tolist()
    return columns


def best_span(directions: Float[Tensor, "k d 1"], subspace: Float[Tensor, "d r"]) -> Float[Tensor, "d r"]:
    """The span of the r single directions that lie most inside the subspace, made orthonormal."""
    r = subspace.shape[1]
    chosen = overlaps(directions, subspace).topk(r).indices
    basis: Tensor = torch.linalg.qr(directions[chosen, :, 0].mT).Q
    return basis


class KnownManifold(NamedTuple):
    """What is to be recovered, in the coordinates of unit tokens."""

    subspace: Float[Tensor, "d r"]
    curved: Float[Tensor, "d q"]
    """The part of the subspace that needs a quadratic form."""
    has_linear: bool
    """Whether the linear part of a latent may span some of the subspace: a direction, or the axis of a paraboloid."""
    centre: Float[Tensor, " q"]
    """Centre in the coordinates of `curved`."""
    radius: float


class Recovery(NamedTuple):
    """The latent assigned to a manifold, and how close it comes."""

    latent: int
    overlap: float
    """Mean cos² of the principal angles between the latent's leading directions and the subspace."""
    angle: float
    """The largest principal angle, in degrees."""
    centre_distance: float
    """Distance of the quadric's centre from the manifold's within the subspace, in radii."""


def recover(
    forms: list[AffineForm], mean: Float[Tensor, " d"], manifolds: list[KnownManifold], variance: float
) -> list[Recovery]:
    """One latent per manifold, none used twice, that maximize the sum of overlaps.

    Args:
        forms: Every latent of a dictionary, read about the mean token.
        mean: The mean unit token μ.
        manifolds: What is to be recovered.
        variance: σ² of unit tokens about the mean, in one direction: (1 − ‖μ‖²)/d.

    Returns:
        The latent of each manifold, with its overlap, angle and the distance of its centre.
    """
    count = max(each.subspace.shape[1] for each in manifolds)
    readings = {has_linear: leading_directions(forms, count, variance if has_linear else None)
                for has_linear in (False, True)}  # fmt: skip
    scores = torch.stack([overlaps(readings[each.has_linear], each.subspace) for each in manifolds])
    found = []
    for row, latent in enumerate(_assigned(scores)):
        known = manifolds[row]
        angle = largest_angle(readings[known.has_linear][latent], known.subspace)
        distance = centre_distance(forms[latent], mean, known)
        found.append(Recovery(latent, scores[row, latent].item(), angle, distance))
    return found


def leading_directions(
    forms: list[AffineForm], count: int, variance: float | None = None
) -> Float[Tensor, "k d count"]:
    """Leading eigenvectors of Q by |λ|; given a variance σ², the leading eigenvectors of 4σ²Q² + c²bbᵀ instead."""
    if variance is None:
        there = torch.stack([(form.eigenvalues[:count] != 0).double() for form in forms])
        return torch.stack([form.eigenvectors[:, :count] for form in forms]) * there[:, None]
    gradients = []
    for form in forms:
        curved = form.eigenvectors * (2 * variance**0.5 * form.eigenvalues)
        gradients.append(curved @ curved.mT + form.scale**2 * form.linear.outer(form.linear))
    values, vectors = torch.linalg.eigh(torch.stack(gradients))
    there = (values > 1e-12 * values[:, -1:]).double()
    leading: Tensor = (vectors * there[:, None])[..., -count:].flip(-1)
    return leading


def quadric_centre(form: AffineForm, rank: int) -> Float[Tensor, " d"]:
    """v₀ = −(c/2)Q⁺b about the mean token, with Q⁺ from the leading eigenpairs."""
    values, vectors = form.eigenvalues[:rank], form.eigenvectors[:, :rank]
    inverse = torch.where(values == 0, 0, 1 / values)
    centre: Tensor = -form.scale / 2 * vectors @ (inverse * (vectors.mT @ form.linear))
    return centre


def centre_distance(form: AffineForm, mean: Float[Tensor, " d"], manifold: KnownManifold) -> float:
    """‖Aᵀ(μ + v₀) − centre‖ / radius, with A the basis of the manifold's curved dimensions."""
    curved = manifold.curved.double()
    own = curved.mT @ (mean.double() + quadric_centre(form, curved.shape[1]))
    return float(torch.linalg.vector_norm(own - manifold.centre.double())) / manifold.radius
