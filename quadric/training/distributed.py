"""Sums and barriers over the processes of a torchrun job; in a single process they do nothing."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from quadric.autoencoders.objective import LossSums


class Rank(NamedTuple):
    """Which process this is, and how many there are."""

    number: int
    world_size: int

    @property
    def is_first(self) -> bool:
        return self.number == 0


def current_rank() -> Rank:
    """The rank of this process in its job."""
    if dist.is_available() and dist.is_initialized():
        return Rank(dist.get_rank(), dist.get_world_size())
    return Rank(0, 1)


def join_job() -> Rank:
    """Join the torchrun job, if there is one: with nccl if there is a GPU, with gloo otherwise."""
    if "TORCHELASTIC_RUN_ID" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return current_rank()


def leave_job() -> None:
    """Leave the job that `join_job` joined."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    """Wait until every process of the job gets here."""
    if current_rank().world_size > 1:
        dist.barrier()


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes. Every process computes the same loss from it, so the gradient with respect to its own
    term is the gradient with respect to the sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def sum_over_processes(sums: LossSums) -> LossSums:
    """The sums over all processes, differentiable, so that every process computes the loss of the whole batch."""
    if current_rank().world_size == 1:
        return sums
    # One message: objective, error, l1, l2² and the number of tokens side by side.
    flat = torch.cat([sums.objective[None], sums.error[None], sums.l1, sums.l2_squared])
    total: Tensor = _SumOverProcesses.apply(flat)  # type: ignore[no-untyped-call]
    count = torch.tensor(sums.n_tokens, device=flat.device)
    dist.all_reduce(count)
    k = len(sums.l1)
    return LossSums(total[0], total[1], total[2 : 2 + k], total[2 + k :], int(count))


def sum_gradients(module: nn.Module) -> None:
    """Replace every gradient by its sum over processes: each process has differentiated its own share of the batch."""
    if current_rank().world_size == 1:
        return
    for parameter in module.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


def computed_once(work: Callable[[Tensor], Tensor], inputs: Iterable[Tensor]) -> Iterator[Tensor]:
    """work(each) for every input, computed by one process and sent to the others, so that all have the same bits.

    Args:
        work: gives a tensor of its input's shape and type.
        inputs: the same on every process.

    Returns:
        The results in order; in a single process they are computed one at a time, as they are asked for.
    """
    here = current_rank()
    if here.world_size == 1:
        return map(work, inputs)
    results = [
        work(each).contiguous() if number % here.world_size == here.number else torch.empty_like(each)
        for number, each in enumerate(inputs)
    ]
    for number, result in enumerate(results):
        dist.broadcast(result, src=number % here.world_size)
    return iter(results)


def gather_objects(value: Any) -> list[Any]:
    """One value from every process, on every process."""
    here = current_rank()
    if here.world_size == 1:
        return [value]
    values: list[Any] = [None] * here.world_size
    dist.all_gather_object(values, value)
    return values
