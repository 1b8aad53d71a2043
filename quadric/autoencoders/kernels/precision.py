"""Which products may be rounded: gradients on a GPU, never the error.

The error zᵀKz − 2‖z‖² + 1 cancels, so everything that it is made of stays in float32. The gradients of the factors are
sums over thousands of tokens or atoms that Muon then orthogonalizes; their factors may be rounded to bfloat16 where
that is the fast way to multiply. The sums themselves are accumulated in float32.
"""

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDED_ON = frozenset({"cuda"})
"""Kinds of device whose gradient products take bfloat16 factors; CPUs multiply float32 faster."""


def write_gradient_product(
    target: Float[Tensor, "m n"], left: Float[Tensor, "m c"], right: Float[Tensor, "c n"]
) -> None:
    """target ← left @ right."""
    if _rounded(target):
        target.copy_(left.bfloat16() @ right.bfloat16())
    else:
        torch.mm(left, right, out=target)


def add_gradient_product(
    target: Float[Tensor, "m n"], left: Float[Tensor, "m c"], right: Float[Tensor, "c n"], scale: float
) -> None:
    """target ← target + scale · left @ right."""
    if _rounded(target):
        target.add_(left.bfloat16() @ right.bfloat16(), alpha=scale)
    else:
        torch.addmm(target, left, right, alpha=scale, out=target)


def _rounded(target: Tensor) -> bool:
    return target.dtype == torch.float32 and target.device.type in ROUNDED_ON
