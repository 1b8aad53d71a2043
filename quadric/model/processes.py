"""The processes of a torchrun job, as far as a loss knows them: sums over all of them that gradients flow through.

Every process computes the loss of the whole batch from its own tokens and from sums over processes. A sum's gradient is
added up over processes too, so that after the backward pass each process holds `world_size` times its own part of the
gradient of every parameter, and the average over processes is the gradient. That holds for every term: for one on
tokens, for one on weights alone, and for K, which the processes compute in parts.
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


class Processes(NamedTuple):
    """Which process this is, and how many there are.

    Example:
        >>> ALONE.total(torch.ones(2))
        tensor([1., 1.])
    """

    number: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        return self.number == 0

    def total(self, own: Tensor) -> Tensor:
        """Sum over all processes, differentiable."""
        if self.world_size == 1:
            return own
        total: Tensor = _Total.apply(own)  # type: ignore[no-untyped-call]
        return total

    def total_count(self, own: int, like: Tensor) -> int:
        """Sum over all processes of a number that needs no gradient."""
        if self.world_size == 1:
            return own
        total = torch.tensor(own, device=like.device)
        dist.all_reduce(total)
        return int(total)


ALONE = Processes()


class _Total(torch.autograd.Function):
    """Every process has the gradient of the loss with respect to the total from its own graph; they are added up."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        total = own.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total
