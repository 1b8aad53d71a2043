"""Every measure of agreement of two autoencoders, each with the value expected by chance.

Chance is a random initialization, and, exactly, the average over all rotations of one autoencoder relative to the
other. A rotation O turns W' into OW'Oᵀ and leaves K' unchanged. Symmetric d×d matrices split into multiples of the
identity, which no rotation changes, and traceless ones, which a random rotation spreads evenly over their
D = (d−1)(d+2)/2 dimensions. Hence

    E⟨A, OBOᵀ⟩² = (tr A tr B / d)² + ‖A₀‖²‖B₀‖² / D,    A₀ = A − (tr A / d) I.

The leading eigenspace of the operator WᵀW on the product space is the part of xxᵀ that an autoencoder keeps best.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.geometry.dictionary import as_forms
from quadric.geometry.kernels import cross_kernel, squared_norm, traces
from quadric.geometry.similarity import (
    HungarianSimilarity,
    comparable,
    frobenius_from_norms,
    hungarian_from_kernels,
    random_forms,
)
from quadric.geometry.spectra import leading_eigenpairs
from quadric.model import Dictionary
from quadric.model.forms import Forms

EIGENSPACE_DIMENSION = 64
NULL_SEED = 1_000_003
"""Seed of the random initialization, one that a trained run is unlikely to have used."""


class Portrait(NamedTuple):
    """The quantities of one autoencoder that a comparison needs; computed once for any number of comparisons."""

    autoencoder: Forms
    kernel: Float[Tensor, "k k"]
    energy: float
    """‖K‖²."""
    traces: Float[Tensor, " k"]
    eigenspace: Float[Tensor, "k p"]
    """Orthonormal eigenforms E_a = Σ_i eigenspace_ia W_i of WᵀW, by eigenvalue descending."""


class Agreement(NamedTuple):
    """Measures of agreement of two autoencoders."""

    frobenius: float
    """Sim_F, of the dictionaries as a whole."""
    hungarian: HungarianSimilarity
    """Sim_H, latent by latent, matched with signs as in the paper."""
    sign_free: HungarianSimilarity
    """Sim_H where W and −W count as the same latent."""
    eigenspaces: float
    """Overlap of the leading eigenspaces of WᵀW and W'ᵀW'."""


class Comparison(NamedTuple):
    """Agreement of two autoencoders, and the values expected by chance."""

    agreement: Agreement
    random: Agreement
    """The first autoencoder with a random initialization of the second one's architecture."""
    rotated_frobenius: float
    """Expected Sim_F after a random rotation of the second autoencoder's coordinates; exact, without sampling."""
    rotated_eigenspaces: float
    """Expected overlap of eigenspaces after such a rotation."""

    def __repr__(self) -> str:
        found, random = self.agreement, self.random
        return (
            f"Comparison(Sim_F {found.frobenius:.4f}, random {random.frobenius:.4f}, rotated "
            f"{self.rotated_frobenius:.4f}; Sim_H {float(found.hungarian):.4f}, random {float(random.hungarian):.4f}; "
            f"eigenspaces {found.eigenspaces:.4f}, random {random.eigenspaces:.4f})"
        )


def compare(
    a: Dictionary | Forms, b: Dictionary | Forms, *, null_seed: int = NULL_SEED, force: bool = False
) -> Comparison:
    """Every measure of agreement between two autoencoders, with its value for a random initialization.

    Args:
        a: Any dictionary.
        b: Another of the same model and hook point.
        null_seed: Seed of the random initialization.
        force: Compare dictionaries of different models or hook points.

    Returns:
        Sim_F, Sim_H, alignment and overlap of eigenspaces, and the same for chance.

    Example:
        >>> found = geometry.compare(ae, ae)
        >>> round(found.agreement.frobenius, 3)
        1.0
        >>> found.random.frobenius < 0.5
        True
    """
    first, second = comparable(a, b, force)
    mine, other = portrait(first), portrait(second)
    return compare_portraits(mine, other, portrait(random_forms(second, null_seed)))


def portrait(autoencoder: Dictionary | Forms) -> Portrait:
    """Compute the kernel of an autoencoder and the quantities that a comparison derives from it."""
    kernel = cross_kernel(autoencoder, autoencoder)
    eigenspace = leading_eigenspace(kernel, EIGENSPACE_DIMENSION)[1]
    return Portrait(as_forms(autoencoder), kernel, squared_norm(kernel), traces(autoencoder), eigenspace)


def compare_portraits(mine: Portrait, other: Portrait, null: Portrait) -> Comparison:
    """The comparison, where `null` is a random initialization of the other's architecture."""
    return Comparison(
        agreement=agreement(mine, other),
        random=agreement(mine, null),
        rotated_frobenius=_rotated_frobenius(mine, other),
        rotated_eigenspaces=_rotated_eigenspaces(mine, other),
    )


def agreement(mine: Portrait, other: Portrait) -> Agreement:
    """Every measure of agreement between two autoencoders."""
    cross = cross_kernel(mine.autoencoder, other.autoencoder)
    return Agreement(
        frobenius=frobenius_from_norms(squared_norm(cross), mine.energy, other.energy),
        hungarian=hungarian_from_kernels(cross, mine.kernel, other.kernel),
        sign_free=hungarian_from_kernels(cross, mine.kernel, other.kernel, sign_free=True),
        eigenspaces=_overlap(cross, mine, other),
    )


def _overlap(cross: Tensor, mine: Portrait, other: Portrait) -> float:
    """‖⟨E_a, E'_b⟩‖² / p between the eigenspaces, both cut to p dimensions."""
    coefficients, others = _cut(mine, other)
    p = coefficients.shape[1]
    products = coefficients.mT.to(cross) @ cross @ others.to(cross)
    return squared_norm(products) / p if p else 0.0


def _cut(mine: Portrait, other: Portrait) -> tuple[Tensor, Tensor]:
    p = min(mine.eigenspace.shape[1], other.eigenspace.shape[1])
    return mine.eigenspace[:, :p], other.eigenspace[:, :p]


def _rotated_frobenius(mine: Portrait, other: Portrait) -> float:
    energies, others = (each.kernel.diagonal().double() for each in (mine, other))
    cross = expected_cross_energy(energies, mine.traces, others, other.traces, mine.autoencoder.lens.width)
    return frobenius_from_norms(cross, mine.energy, other.energy)


def _rotated_eigenspaces(mine: Portrait, other: Portrait) -> float:
    coefficients, others = _cut(mine, other)
    p = coefficients.shape[1]
    ones = torch.ones(p, dtype=torch.float64, device=coefficients.device)
    own_traces, other_traces = coefficients.mT @ mine.traces, others.mT @ other.traces
    expected = expected_cross_energy(ones, own_traces, ones, other_traces, mine.autoencoder.lens.width)
    return expected / p if p else 0.0


def leading_eigenspace(kernel: Float[Tensor, "k k"], count: int) -> tuple[Float[Tensor, " p"], Float[Tensor, "k p"]]:
    """The `count` leading eigenvalues of WᵀW with the coefficients of their eigenforms, or as many as K's rank allows.

    If Kv = λv, then Σ_i v_i W_i / √λ is an eigenform.
    """
    values, vectors = leading_eigenpairs(kernel, min(count, len(kernel)))
    noise = len(kernel) * torch.finfo(kernel.dtype).eps * float(values.max().clamp(min=0))
    kept = values > noise
    return values[kept], vectors[:, kept] / values[kept].sqrt()


def expected_cross_energy(
    energies: Float[Tensor, " k"],
    traces: Float[Tensor, " k"],
    other_energies: Float[Tensor, " g"],
    other_traces: Float[Tensor, " g"],
    d_model: int,
) -> float:
    """E‖M‖² = E Σ_ij ⟨W_i, OW'_jOᵀ⟩² over rotations O, from the latents' ‖W‖² and tr W alone."""
    aligned, other_aligned = traces.square().sum() / d_model, other_traces.square().sum() / d_model
    free = max(0.0, float(energies.sum() - aligned))
    other_free = max(0.0, float(other_energies.sum() - other_aligned))
    directions = (d_model - 1) * (d_model + 2) / 2
    return float(aligned * other_aligned) + (free * other_free / directions if directions else 0.0)
