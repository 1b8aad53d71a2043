"""From X̂ back to a vector: its leading eigenpair, computed without forming X̂.

X̂ = Σ_j a_j ½(l_j r_jᵀ + r_j l_jᵀ) of a token is d×d, but its product with a vector takes two passes over L and R, and
Lanczos iteration needs only such products. All tokens of a batch are iterated in parallel.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.devices import factored

STEPS = 20
RESTARTS = 20
TOLERANCE = 1e-4
"""Bound on the residual ‖X̂v − λv‖, relative to the largest |λ| found."""


class LeadingEigenpairs(NamedTuple):
    """The algebraically largest eigenvalue of each X̂, and its unit eigenvector (whose sign is arbitrary)."""

    values: Float[Tensor, " n"]
    vectors: Float[Tensor, "n d"]
    residuals: Float[Tensor, " n"]
    """‖X̂v − λv‖ relative to the largest |λ| found."""


def leading_eigenpairs(
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    weights: Float[Tensor, "n h"],
    start: Float[Tensor, "n d"],
) -> LeadingEigenpairs:
    """Lanczos from `start`, restarted from the best vector until the residual is small."""
    # Lanczos started at an eigenvector finds no other; a little noise in every direction prevents that.
    noise = torch.randn(start.shape[1], generator=torch.Generator().manual_seed(0)).to(start)
    vectors = torch.nn.functional.normalize(start + 0.1 * noise / noise.norm(), dim=-1)
    values = torch.zeros_like(vectors[:, 0])
    residuals = torch.full_like(values, torch.inf)
    for _ in range(RESTARTS):
        open_ = (residuals > TOLERANCE).nonzero().squeeze(1)
        if not len(open_):
            break
        found = _lanczos(left, right, weights[open_], vectors[open_])
        values[open_], vectors[open_], residuals[open_] = found
    return LeadingEigenpairs(values, vectors, residuals)


def rank_one_vectors(pairs: LeadingEigenpairs, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """x̂ = √λ₁ v₁, the nearest rank-1 positive form, with the sign for which x̂·x ≥ 0; zero where λ₁ ≤ 0.

    xxᵀ does not determine the sign of x, so no decoder can recover it; it is taken from the true token.
    """
    aligned = (pairs.vectors * tokens).sum(-1, keepdim=True)
    signs = torch.where(aligned < 0, -1.0, 1.0).to(tokens)
    return signs * pairs.values.clamp_min(0).sqrt().unsqueeze(-1) * pairs.vectors


def _lanczos(left: Tensor, right: Tensor, weights: Tensor, start: Tensor) -> LeadingEigenpairs:
    """One cycle: an orthonormal basis of each token's Krylov space, and the leading eigenpair within it."""
    n, d = start.shape
    steps = min(STEPS, d)
    basis = start.new_zeros(n, steps, d)
    projected = start.new_zeros(n, steps, steps)
    vector = start
    beta = start.new_zeros(n)
    for step in range(steps):
        basis[:, step] = vector
        image = _apply(left, right, weights, vector)
        projected[:, step, step] = (image * vector).sum(-1)
        for _ in range(2):  # twice: after once, rounding errors grow into copies of eigenvectors
            image = image - _combined(basis[:, : step + 1], _along(basis[:, : step + 1], image))
        beta = image.norm(dim=-1)
        if step + 1 < steps:
            projected[:, step, step + 1] = projected[:, step + 1, step] = beta
        # Once the space is exhausted only rounding errors are left; a zero vector leaves the result unchanged.
        vector = torch.where(beta > 1e-6, 1.0, 0.0).unsqueeze(-1) * image / beta.clamp_min(1e-30).unsqueeze(-1)
    eigenvalues, eigenvectors = factored(torch.linalg.eigh, projected)
    best = eigenvectors[:, :, -1]
    scale = eigenvalues.abs().amax(-1).clamp_min(1e-30)
    vectors = torch.nn.functional.normalize(_combined(basis, best), dim=-1)
    return LeadingEigenpairs(eigenvalues[:, -1], vectors, beta * best[:, -1].abs() / scale)


def _apply(left: Tensor, right: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    """X̂v of every token."""
    return ((weights * (vectors @ right.mT)) @ left + (weights * (vectors @ left.mT)) @ right) / 2


def _along(basis: Tensor, vectors: Tensor) -> Tensor:
    return torch.einsum("nmd,nd->nm", basis, vectors)


def _combined(basis: Tensor, coefficients: Tensor) -> Tensor:
    return torch.einsum("nmd,nm->nd", basis, coefficients)
