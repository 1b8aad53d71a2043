"""Latents z = C((Lx)∘(Rx)) of a batch of tokens, and the sums over them that make up the loss.

    e = zᵀKz − 2‖z‖² + 1 per token,    ‖z − b‖₁ and ‖z − b‖₂² per latent

The error may be that of the strongest latents of every token alone: all others are zero in e, and only there.

Activations of all atoms on all tokens, two per token and atom, and their products would be the largest tensors of a
training step. With sparse C they are computed for a few tokens at a time, mixed into latents and freed, and computed
again in the backward pass. Small ones are kept for it instead.
"""

from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.model.fast.products import (
    MOST_KEPT,
    CsrPattern,
    add_gradient_product,
    csr_matrix,
    csr_product,
    sampled_product,
    slices,
    weighted_gram,
    write_gradient_product,
)

ATOMS_AT_ONCE = 256
"""Atoms whose two activations are multiplied while they are in the CPU cache."""
TOKENS_AT_ONCE = 512
"""Tokens for which a sparse C holds the activations of all atoms."""
NUMBERS_AT_ONCE = 2**18
"""Entries of Z processed together: one mebibyte in float32, which stays in the CPU cache through all operations."""


def atom_activations(
    tokens: Float[Tensor, "n d"], left: Float[Tensor, "h d"], right: Float[Tensor, "h d"]
) -> Float[Tensor, "n h"]:
    """(l_j·x)(r_j·x) per token and atom, stored atom by atom: mixing reads whole atoms.

    Factors that are one and the same tensor are tied: (l_j·x)² takes one product.
    """
    if right is left:
        return (left @ tokens.mT).square().mT
    return _AtomActivations.apply(tokens, left, right).mT  # type: ignore[no-untyped-call, no-any-return]


class _AtomActivations(torch.autograd.Function):
    """Works on blocks of atoms, so that no product of gradients is held for all atoms at once."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, left: Tensor, right: Tensor) -> Tensor:
        lefts, rights, values = (
            torch.empty(len(left), len(tokens), dtype=tokens.dtype, device=tokens.device) for _ in range(3)
        )
        for rows in slices(len(left), ATOMS_AT_ONCE):
            torch.mm(left[rows], tokens.mT, out=lefts[rows])
            torch.mm(right[rows], tokens.mT, out=rights[rows])
            torch.mul(lefts[rows], rights[rows], out=values[rows])
        ctx.save_for_backward(tokens, left, right, lefts, rights)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        tokens, left, right, lefts, rights = ctx.saved_tensors
        grad_left, grad_right = torch.empty_like(left), torch.empty_like(right)
        grad_tokens = torch.zeros_like(tokens) if ctx.needs_input_grad[0] else None
        for rows in slices(len(left), ATOMS_AT_ONCE):
            for factor, other, grad_factor in ((left, rights, grad_left), (right, lefts, grad_right)):
                share = grad[rows] * other[rows]
                write_gradient_product(grad_factor[rows], share, tokens)
                if grad_tokens is not None:
                    grad_tokens += share.mT @ factor[rows]
        return grad_tokens, grad_left, grad_right


def sparse_latents(
    tokens: Float[Tensor, "n d"],
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    values: Float[Tensor, " nnz"],
    pattern: CsrPattern,
) -> Float[Tensor, "n k"]:
    """Σ_j C_ij (l_j·x)(r_j·x) per token and latent for sparse C, stored latent by latent."""
    return _SparseLatents.apply(tokens, left, right, values, pattern).mT  # type: ignore[no-untyped-call, no-any-return]


def keeps_activations(n_tokens: int, n_atoms: int) -> bool:
    """Whether sparse C keeps both activations of every atom and token for the backward pass."""
    return 2 * n_tokens * n_atoms < MOST_KEPT


class _SparseLatents(torch.autograd.Function):
    """Recomputes the activations of the atoms in the backward pass instead of storing them, unless they are small."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, left: Tensor, right: Tensor, values: Tensor, pattern: CsrPattern) -> Tensor:
        ctx.pattern, ctx.is_tied = pattern, right is left
        sparse = csr_matrix(values, pattern)
        latents = torch.empty(pattern.shape[0], len(tokens), dtype=tokens.dtype, device=tokens.device)
        kept: list[Tensor] = []
        keeps, memory = keeps_activations(len(tokens), len(left)), _Memory()
        for some in slices(len(tokens), TOKENS_AT_ONCE):
            factors = _factor_activations(left, right, tokens[some], None if keeps else memory)
            product = torch.mul(factors[0], factors[-1], out=None if keeps else factors[0])
            latents[:, some] = csr_product(sparse, product)
            kept += factors if keeps else []
        ctx.save_for_backward(tokens, left, right, values, *kept)
        return latents

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor, None]:
        tokens, left, right, values, *kept = ctx.saved_tensors
        right = left if ctx.is_tied else right  # one input, which gets the whole gradient
        transposed = csr_matrix(values[ctx.pattern.by_column], ctx.pattern.transposed())
        grad_left, grad_values = torch.zeros_like(left), torch.zeros_like(values)
        grad_right = None if ctx.is_tied else torch.zeros_like(right)
        grad_tokens = torch.empty_like(tokens) if ctx.needs_input_grad[0] else None
        memory, n_factors = _Memory(), 1 if ctx.is_tied else 2
        for some in slices(len(tokens), TOKENS_AT_ONCE):
            factors = [kept.pop(0) for _ in range(n_factors)] if kept else None
            lefts, *rest = factors or _factor_activations(left, right, tokens[some], memory)
            rights = rest[0] if rest else lefts
            share = grad[:, some].contiguous()
            product = torch.mul(lefts, rights, out=memory.take("product", lefts.shape, lefts))
            grad_values += sampled_product(share, product.mT, ctx.pattern)
            spread = csr_product(transposed, share, memory.take("spread", lefts.shape, lefts))
            for_right = None if grad_right is None else torch.mul(lefts, spread, out=product)
            for_left = spread.mul_(rights) if for_right is not None else spread.mul_(lefts).mul_(2)
            add_gradient_product(grad_left, for_left, tokens[some], 1.0)
            if grad_right is not None and for_right is not None:
                add_gradient_product(grad_right, for_right, tokens[some], 1.0)
            if grad_tokens is not None:
                grad_tokens[some] = for_left.mT @ left
                if for_right is not None:
                    grad_tokens[some] += for_right.mT @ right
        return grad_tokens, grad_left, grad_right, grad_values, None


class _Memory:
    """Memory for the activations of a block of tokens, used again for the next block: fresh memory of this size comes
    from the system page by page, which took a quarter of a step's time."""

    def __init__(self) -> None:
        self.held: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Uninitialized numbers under this name, the same memory each time; the first block is the largest."""
        size = prod(shape)
        if name not in self.held:
            self.held[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return self.held[name][:size].view(shape)


def _factor_activations(left: Tensor, right: Tensor, tokens: Tensor, memory: _Memory | None) -> list[Tensor]:
    """l_j·x and r_j·x per atom and token; only the first if the factors are tied."""
    factors = {"left": left} if right is left else {"left": left, "right": right}
    shape = (len(left), len(tokens))
    return [
        torch.mm(factor, tokens.mT, out=None if memory is None else memory.take(name, shape, factor))
        for name, factor in factors.items()
    ]


@torch.no_grad()
def strongest(latents: Float[Tensor, "n k"], norms: Float[Tensor, " k"], count: int) -> Int[Tensor, "n c"]:
    """The `count` latents of each token with the largest share ‖z_i W_i‖ = |z_i|·‖W_i‖.

    Args:
        latents: z.
        norms: ‖W_i‖ = √K_ii.
        count: how many.
    """
    chosen = torch.empty(len(latents), count, dtype=torch.long, device=latents.device)
    for some in slices(len(latents), TOKENS_AT_ONCE):
        shares = latents[some].abs().mul_(norms).contiguous()
        chosen[some] = shares.topk(count, dim=1, sorted=False).indices
    return chosen


def kept_latents(indices: Int[Tensor, "n c"], n_latents: int) -> Bool[Tensor, "n k"]:
    """Whether a latent is among those of its token, stored latent by latent, like the latents."""
    kept = torch.zeros(n_latents, len(indices), dtype=torch.bool, device=indices.device)
    return kept.scatter_(0, indices.mT, True).mT


def latent_errors(
    latents: Float[Tensor, "n k"], kernel: Float[Tensor, "k k"], kept: Bool[Tensor, "n k"] | None = None
) -> Float[Tensor, " n"]:
    """Product-space error of unit tokens, zᵀKz − 2‖z‖² + 1, for symmetric K.

    Args:
        latents: z.
        kernel: K.
        kept: Latents that reconstruct each token; all by default.
    """
    return _LatentErrors.apply(latents, kernel, kept)  # type: ignore[no-untyped-call, no-any-return]


class _LatentErrors(torch.autograd.Function):
    """Plain autograd would allocate several tensors as large as Z forward and several more backward; here a few
    latents at a time go through all operations while they are in the CPU cache. K is symmetric, so P = KZᵀ is used
    for the value and for ∂/∂Z: two products of size n·k² in total, where plain autograd takes three."""

    @staticmethod
    def forward(ctx: Any, latents: Tensor, kernel: Tensor, kept: Tensor | None) -> Tensor:
        by_latent = latents.mT
        chosen = by_latent if kept is None else by_latent * kept.mT
        product = kernel @ chosen
        error = torch.ones(len(latents), dtype=latents.dtype, device=latents.device)
        for rows in _row_chunks(by_latent):
            # z(Kz − 2z) cancels entry by entry; zᵀKz − 2‖z‖² would cancel as the difference of two large sums.
            error += torch.sub(product[rows], chosen[rows], alpha=2).mul_(chosen[rows]).sum(0)
        ctx.save_for_backward(latents, product, kept)
        return error

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        latents, product, kept = ctx.saved_tensors
        by_latent = latents.mT
        chosen = by_latent if kept is None else by_latent * kept.mT
        grad_latents = torch.empty_like(product)
        for rows in _row_chunks(by_latent):
            torch.sub(product[rows], chosen[rows], alpha=2, out=grad_latents[rows])
            grad_latents[rows].mul_(2 * grad)
            if kept is not None:
                grad_latents[rows].mul_(kept.mT[rows])
        grad_kernel = weighted_gram(chosen, grad) if ctx.needs_input_grad[1] else None
        return grad_latents.mT, grad_kernel, None


def latent_norms(
    latents: Float[Tensor, "n k"], offset: Float[Tensor, " k"]
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """‖z − b‖₁ and ‖z − b‖₂² per latent, which the Hoyer density is computed from.

    Args:
        latents: z.
        offset: b.
    """
    l1, l2_squared = _LatentNorms.apply(latents, offset)  # type: ignore[no-untyped-call]
    return l1, l2_squared


class _LatentNorms(torch.autograd.Function):
    """A few latents at a time, like `_LatentErrors`."""

    @staticmethod
    def forward(ctx: Any, latents: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        by_latent = latents.mT
        l1, l2_squared = torch.empty_like(offset), torch.empty_like(offset)
        for rows in _row_chunks(by_latent):
            _write_norms(by_latent[rows], offset[rows], l1[rows], l2_squared[rows])
        ctx.save_for_backward(latents, offset)
        return l1, l2_squared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_l1: Tensor, grad_l2: Tensor) -> tuple[Tensor, Tensor]:
        latents, offset = ctx.saved_tensors
        by_latent = latents.mT
        grad_latents, grad_offset = (
            torch.empty(by_latent.shape, dtype=latents.dtype, device=latents.device),
            torch.empty_like(offset),
        )
        for rows in _row_chunks(by_latent):
            grad_latents[rows] = _norms_gradient(by_latent[rows], offset[rows], grad_l1[rows], grad_l2[rows])
            torch.sum(grad_latents[rows], 1, out=grad_offset[rows])
        return grad_latents.mT, grad_offset.neg_()


def _write_norms(by_latent: Tensor, offset: Tensor, l1: Tensor, l2_squared: Tensor) -> None:
    """‖z − b‖₁ and ‖z − b‖₂² of some latents, into the last two."""
    centred = by_latent - offset[:, None]
    torch.sum(centred.abs(), 1, out=l1)
    torch.sum(centred.square_(), 1, out=l2_squared)


def _norms_gradient(by_latent: Tensor, offset: Tensor, grad_l1: Tensor, grad_l2: Tensor) -> Tensor:
    """What both norms give to ∂/∂z, for some latents."""
    centred = by_latent - offset[:, None]
    signs = centred.sgn()
    return centred.mul_(2 * grad_l2[:, None]).addcmul_(signs, grad_l1[:, None])


def _row_chunks(matrix: Tensor) -> list[slice]:
    return slices(len(matrix), max(1, NUMBERS_AT_ONCE // matrix.shape[1]))
