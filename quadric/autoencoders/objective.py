"""The objective as pure functions: kernel-trick error, Hoyer density, product-space correction.

The error of a bilinear autoencoder is measured in the d×d product space without ever building it:

    ‖X̂ − X‖²/‖X‖² = (zᵀKz − 2‖z‖² + ‖x‖⁴) / ‖x‖⁴,   X = xxᵀ,   K = C G Cᵀ,   G = inner products of the atoms.

Only zᵀKz is costly. It comes in three forms that agree to rounding: `quadratic_form` with K at hand (dense C or
sparse C make K differently, see `mixing`), and `blocked_quadratic_form`, which never holds a k×k or h×h matrix.
"""

from math import sqrt
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.gram import atom_gram, cross_gram
from quadric.autoencoders.kernels.symmetric import block_pairs, weighted_gram

__all__ = [
    "LossSums",
    "LossTerms",
    "atom_gram",
    "block_pairs",
    "blocked_quadratic_form",
    "cross_gram",
    "density_from_norms",
    "density_norms",
    "hoyer_density",
    "kernel_error",
    "product_space_error",
    "quadratic_form",
]


class LossTerms(NamedTuple):
    """What one batch costs: `total` is what to minimize."""

    total: Float[Tensor, ""]
    error: Float[Tensor, ""]
    """Normalized squared error in the product space, averaged over tokens."""
    density: Float[Tensor, ""]
    """Hoyer density over the batch, averaged over latents."""


class LossSums(NamedTuple):
    """Sums over tokens that make up a loss; those of two batches, or two processes, may simply be added."""

    objective: Float[Tensor, ""]
    error: Float[Tensor, ""]
    l1: Float[Tensor, " k"]
    l2_squared: Float[Tensor, " k"]
    n_tokens: int

    def terms(self, alpha: float) -> LossTerms:
        """Mean objective + alpha · mean Hoyer density."""
        density = density_from_norms(self.l1, self.l2_squared, self.n_tokens).mean()
        return LossTerms(
            total=self.objective / self.n_tokens + alpha * density, error=self.error / self.n_tokens, density=density
        )


def quadratic_form(latents: Float[Tensor, "n k"], kernel: Float[Tensor, "k k"]) -> Float[Tensor, " n"]:
    """zᵀKz for every token, for symmetric K, with two large products over forward and backward."""
    return _QuadraticForm.apply(latents, kernel)  # type: ignore[no-untyped-call, no-any-return]


class _QuadraticForm(torch.autograd.Function):
    """Autograd would multiply three times by n·k²; K is symmetric, so P = KZᵀ serves the value and ∂/∂Z."""

    @staticmethod
    def forward(ctx: Any, latents: Tensor, kernel: Tensor) -> Tensor:
        product = kernel @ latents.mT
        ctx.save_for_backward(latents, product)
        return (product * latents.mT).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        latents, product = ctx.saved_tensors
        needs_latents, needs_kernel = ctx.needs_input_grad
        grad_latents = (product * (2 * grad)).mT if needs_latents else None
        return grad_latents, weighted_gram(latents.mT, grad) if needs_kernel else None


def blocked_quadratic_form(
    weights: Float[Tensor, "n h"],
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    symmetric: bool = True,
    block_size: int = 2048,
) -> Float[Tensor, " n"]:
    """wᵀGw for every token, walking the atoms in blocks; memory is linear in the block.

    With w = Cᵀz this is zᵀKz for every prior, and with C = I (atomic) the blocks are blocks of latents.
    """
    if block_size < 1:
        raise ValueError(f"block_size={block_size} is not positive; give the number of atoms to hold at once")
    return _BlockedQuadraticForm.apply(weights, left, right, symmetric, block_size)  # type: ignore[no-untyped-call, no-any-return]


class _BlockedQuadraticForm(torch.autograd.Function):
    """Saves P = WG only: each block of G is made anew for the backward pass instead of being kept."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, left: Tensor, right: Tensor, symmetric: bool, block_size: int) -> Tensor:
        product = torch.zeros_like(weights)
        for a, b in block_pairs(len(left), block_size):
            gram = cross_gram(left[a], right[a], left[b], right[b], symmetric)
            product[:, a] += weights[:, b] @ gram.mT
            if a != b:
                product[:, b] += weights[:, a] @ gram
        ctx.save_for_backward(weights, left, right, product)
        ctx.symmetric, ctx.block_size = symmetric, block_size
        return (product * weights).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, left, right, product = ctx.saved_tensors
        needs_weights, needs_left, needs_right, *_ = ctx.needs_input_grad
        grad_weights = 2 * grad[:, None] * product if needs_weights else None
        if not (needs_left or needs_right):
            return grad_weights, None, None, None, None
        grad_left, grad_right = torch.zeros_like(left), torch.zeros_like(right)
        weighted = grad[:, None] * weights
        for a, b in block_pairs(len(left), ctx.block_size):
            # An off-diagonal block stands for its mirror image too, so it counts twice.
            grad_gram = weights[:, a].mT @ weighted[:, b] * (1 if a == b else 2)
            parts = [part.detach().requires_grad_() for part in (left[a], right[a], left[b], right[b])]
            with torch.enable_grad():
                gram = cross_gram(parts[0], parts[1], parts[2], parts[3], ctx.symmetric)
            grads = torch.autograd.grad(gram, parts, grad_gram)
            for total, rows, part in zip(
                (grad_left, grad_right, grad_left, grad_right), (a, a, b, b), grads, strict=True
            ):
                total[rows] += part
        return grad_weights, grad_left, grad_right, None, None


def kernel_error(quadratic: Float[Tensor, " n"], latents: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """Normalized product-space error of unit tokens: zᵀKz − 2‖z‖² + 1."""
    return quadratic - 2 * latents.square().sum(-1) + 1


def hoyer_density(
    latents: Float[Tensor, "n k"],
    offset: Float[Tensor, " k"] | None = None,
    mask: Bool[Tensor, " n"] | None = None,
) -> Float[Tensor, " k"]:
    """How evenly each latent fires over the kept tokens: 0 for a single token, 1 for all alike.

    (‖z − b‖₁/‖z − b‖₂ − 1) / (√n − 1)
    """
    if mask is not None:
        latents = latents[mask]
    return density_from_norms(*density_norms(latents, offset), len(latents))


def density_norms(
    latents: Float[Tensor, "n k"], offset: Float[Tensor, " k"] | None = None
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """‖z − b‖₁ and ‖z − b‖₂² of every latent over the tokens."""
    centred = latents if offset is None else latents - offset
    return centred.abs().sum(0), centred.square().sum(0)


def density_from_norms(l1: Float[Tensor, " k"], l2_squared: Float[Tensor, " k"], n_tokens: int) -> Float[Tensor, " k"]:
    """Hoyer density from sums over tokens, which may have been added up across processes."""
    if n_tokens < 2:
        return l1 * 0  # one token is one-hot and uniform at once: there is nothing to penalize
    # A latent that equals its offset everywhere has no direction to become sparser in: it counts as uniform,
    # with zero gradient. The double `where` keeps the unused 0/0 out of the backward pass.
    silent = l2_squared <= torch.finfo(l2_squared.dtype).tiny
    ratio = l1 / torch.where(silent, 1, l2_squared).sqrt()
    return (torch.where(silent, sqrt(n_tokens), ratio) - 1) / (sqrt(n_tokens) - 1)


def product_space_error(tokens: Float[Tensor, "n d"], reconstruction: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Exact ‖xxᵀ − x̂x̂ᵀ‖²/‖xxᵀ‖² of a linear reconstruction, to set beside a bilinear error.

    S = ½(1 − ‖x̂‖²)² + s(1 + ‖x̂‖²) − ½s² for unit x and s = ‖x − x̂‖². It equals 1 + ‖x̂‖⁴ − 2(x·x̂)², whose
    terms of size one would cancel to noise for a good reconstruction.
    """
    energy = tokens.square().sum(-1)
    residual = (tokens - reconstruction).square().sum(-1) / energy
    size = reconstruction.square().sum(-1) / energy
    return (1 - size).square() / 2 + residual * (1 + size) - residual.square() / 2
