"""Latents by a sparse C, z = C((Lx)∘(Rx)), without ever holding what all atoms answer to all tokens.

Those answers, two to a token and atom, and their products would be the largest things in a training step. A few tokens
at a time they are made, mixed and dropped, and made once more for the gradient.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.csr import CsrPattern, csr_matrix, csr_product, sampled_product
from quadric.autoencoders.kernels.precision import add_gradient_product
from quadric.autoencoders.kernels.symmetric import slices

TOKENS_AT_ONCE = 512


def sparse_latents(
    tokens: Float[Tensor, "n d"],
    left: Float[Tensor, "h d"],
    right: Float[Tensor, "h d"],
    values: Float[Tensor, " nnz"],
    pattern: CsrPattern,
) -> Float[Tensor, "n k"]:
    """Σ_j C_ij (l_j·x)(r_j·x) of every token and latent, laid out latent by latent."""
    return _SparseLatents.apply(tokens, left, right, values, pattern).mT  # type: ignore[no-untyped-call, no-any-return]


class _SparseLatents(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, left: Tensor, right: Tensor, values: Tensor, pattern: CsrPattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(tokens, left, right, values)
        sparse = csr_matrix(values, pattern)
        latents = torch.empty(pattern.shape[0], len(tokens), dtype=tokens.dtype, device=tokens.device)
        for some in slices(len(tokens), TOKENS_AT_ONCE):
            latents[:, some] = csr_product(sparse, (left @ tokens[some].mT).mul_(right @ tokens[some].mT))
        return latents

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor, None]:
        tokens, left, right, values = ctx.saved_tensors
        transposed = csr_matrix(values[ctx.pattern.by_column], ctx.pattern.transposed())
        grad_left, grad_right, grad_values = (torch.zeros_like(each) for each in (left, right, values))
        grad_tokens = torch.empty_like(tokens) if ctx.needs_input_grad[0] else None
        for some in slices(len(tokens), TOKENS_AT_ONCE):
            lefts, rights = left @ tokens[some].mT, right @ tokens[some].mT
            share = grad[:, some].contiguous()
            grad_values += sampled_product(share, (lefts * rights).mT, ctx.pattern)
            spread = csr_product(transposed, share)
            for_left, for_right = rights.mul_(spread), lefts.mul_(spread)
            add_gradient_product(grad_left, for_left, tokens[some], 1.0)
            add_gradient_product(grad_right, for_right, tokens[some], 1.0)
            if grad_tokens is not None:
                grad_tokens[some] = for_left.mT @ left + for_right.mT @ right
        return grad_tokens, grad_left, grad_right, grad_values, None
