"""Muon with its Newton–Schulz iteration in float32 on the small side of the matrix.

torch.optim.Muon iterates on the whole matrix in bfloat16. Every factor that it multiplies the matrix X by is a
polynomial in XᵀX, and those commute, so the iteration can run on the small Gram matrix alone:

    A₀ = XᵀX,   P = aI + bA + cA²,   A ← PAP,   Q ← QP,   and in the end X Q.

One pass over the tall matrix at each end instead of two in each of five rounds, and in float32, which CPUs multiply
faster than bfloat16 (benchmarks/results/muon.md) and which keeps the last bit of a sum from becoming its third digit.
"""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from quadric.autoencoders.kernels.symmetric import symmetric_product

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
TINY = 1e-7


def orthogonalized(matrix: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """The matrix with its singular values brought near 1: US'Vᵀ with S' ≈ 1 for USVᵀ."""
    if matrix.shape[0] < matrix.shape[1]:
        return orthogonalized(matrix.mT).mT
    norm: Tensor = torch.linalg.matrix_norm(matrix)
    tall = matrix / norm.clamp(min=TINY)
    return tall @ _factor_product(symmetric_product(tall.mT, tall))


def _factor_product(gram: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """The product of all rounds' factors. Every matrix here is a polynomial in the first, so every product of two
    is symmetric and done by halves."""
    product = factor = _factor(gram)
    for _ in range(ROUNDS - 1):
        gram = symmetric_product(symmetric_product(factor, gram), factor)
        factor = _factor(gram)
        product = symmetric_product(product, factor)
    return product


def _factor(gram: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """aI + bA + cA²."""
    a, b, c = COEFFICIENTS
    factor = symmetric_product(gram, gram).mul_(c).add_(gram, alpha=b)
    factor.diagonal().add_(a)
    return factor


def nesterov_momentum(state: dict[str, Tensor], grad: Float[Tensor, "*s"], momentum: float) -> Float[Tensor, "*s"]:
    """The momentum after this gradient and Nesterov's look ahead, at least in float32."""
    if not state:
        state["momentum_buffer"] = torch.zeros_like(grad)
    buffer = state["momentum_buffer"]
    buffer.lerp_(grad, 1 - momentum)
    ahead = grad.lerp(buffer, momentum)
    return ahead.to(torch.promote_types(ahead.dtype, torch.float32))


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized: what torch.optim.Muon does with adjust_lr_fn="original" and no weight decay."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group["lr"], group["momentum"])

    def _update(self, parameter: Tensor, grad: Tensor, lr: float, momentum: float) -> None:
        rows, columns = parameter.shape
        direction = orthogonalized(nesterov_momentum(self.state[parameter], grad, momentum))
        parameter.sub_(direction.to(parameter.dtype), alpha=lr * sqrt(max(1, rows / columns)))
