"""The kernel of dense C: K = CGCᵀ with its gradient, by halves where the result is symmetric."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from quadric.autoencoders.kernels.symmetric import symmetric_product


def dense_kernel(weight: Float[Tensor, "k h"], gram: Float[Tensor, "h h"]) -> Float[Tensor, "k k"]:
    """C G Cᵀ for symmetric G."""
    return _DenseKernel.apply(weight, gram)  # type: ignore[no-untyped-call, no-any-return]


class _DenseKernel(torch.autograd.Function):
    """For a symmetric gradient S: ∂/∂C = 2S(CG) with the CG of the forward pass, ∂/∂G = Cᵀ(SC)."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, gram: Tensor) -> Tensor:
        half = weight @ gram
        ctx.save_for_backward(weight, half)
        return symmetric_product(half, weight.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weight, half = ctx.saved_tensors
        share = torch.add(grad, grad.mT).mul_(0.5)
        grad_weight = (share @ half).mul_(2) if ctx.needs_input_grad[0] else None
        grad_gram = symmetric_product(weight.mT, share @ weight) if ctx.needs_input_grad[1] else None
        return grad_weight, grad_gram
