"""Adding up across the processes of a torchrun job; a process alone adds nothing."""

import os
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from quadric.autoencoders.objective import LossSums


class Place(NamedTuple):
    """Which process this is, and of how many."""

    rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def place() -> Place:
    """This process's place in the job."""
    if dist.is_available() and dist.is_initialized():
        return Place(dist.get_rank(), dist.get_world_size())
    return Place(0, 1)


def join_job() -> Place:
    """Join the job that torchrun started, if it started one: nccl where there is a GPU, gloo elsewhere."""
    if "TORCHELASTIC_RUN_ID" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return place()


def leave_job() -> None:
    """Leave it again."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class _AllReduce(torch.autograd.Function):
    """A sum over processes; whoever used the sum asks for gradients, so those are summed too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


def summed(sums: LossSums) -> LossSums:
    """The sums over all processes, differentiable, so that every process sees the loss of the whole batch."""
    if place().world_size == 1:
        return sums
    # One message: objective, error, l1, l2² and the number of tokens side by side.
    flat = torch.cat([sums.objective[None], sums.error[None], sums.l1, sums.l2_squared])
    total: Tensor = _AllReduce.apply(flat)  # type: ignore[no-untyped-call]
    count = torch.tensor(sums.n_tokens, device=flat.device)
    dist.all_reduce(count)
    k = len(sums.l1)
    return LossSums(total[0], total[1], total[2 : 2 + k], total[2 + k :], int(count))


def sum_gradients(module: nn.Module) -> None:
    """Replace every gradient by its mean over processes.

    Each process differentiates the same whole-batch loss, and the backward pass of its all-reduce adds up what the
    processes ask for; the mean over processes is therefore the gradient of that one loss.
    """
    if place().world_size == 1:
        return
    for parameter in module.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= place().world_size


def gathered(value: Any) -> list[Any]:
    """One value from every process, on every process."""
    here = place()
    if here.world_size == 1:
        return [value]
    values: list[Any] = [None] * here.world_size
    dist.all_gather_object(values, value)
    return values
