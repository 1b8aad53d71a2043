"""Sums and barriers over the processes of a torchrun job; in a single process they do nothing."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from quadric.model.processes import ALONE, Processes


def current_processes() -> Processes:
    """The processes of this job, and which of them this is."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return ALONE


def is_job() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def join_job(device: str = "auto") -> Processes:
    """Join the torchrun job, if there is one, and take this process's own device in it.

    Args:
        device: As in `local_device`. GPUs communicate by nccl. What stays in main memory, such as cursors and the
            moments of cached tokens, is exchanged by gloo, which is also what a job without GPUs uses.

    Returns:
        The rank of this process.

    Example:
        >>> join_job()  # outside of torchrun
        Processes(number=0, world_size=1)
    """
    if is_job() and not dist.is_initialized():
        own = local_device(device)
        if own.type == "cuda":
            torch.cuda.set_device(own)  # before any other call, which would take memory of the first GPU
            dist.init_process_group("cpu:gloo,cuda:nccl", device_id=own)
        else:
            dist.init_process_group("gloo")
    return current_processes()


def local_device(device: str = "auto") -> torch.device:
    """The device of this process of a job: the GPU of its machine with the number LOCAL_RANK, or the CPU.

    Args:
        device: `auto` is a GPU if there are any; `cuda` is the process's own GPU as well. A certain one, such as
            `cuda:1`, is for jobs with one process per machine.

    Returns:
        The device, with the number of the GPU.

    Example:
        >>> local_device("cpu")
        device(type='cpu')
    """
    local, n_local = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    kind, _, number = device.partition(":")
    available = torch.cuda.is_available()
    if kind not in ("auto", "cpu", "cuda") or (kind == "cuda" and not available):
        raise ValueError(f"no device '{device}' for the processes of a job; give auto or cpu{', cuda' * available}")
    if kind == "cpu" or not available:
        return torch.device("cpu")
    if number and n_local > 1:
        raise ValueError(
            f"device={device} would be shared by the {n_local} processes of this machine; give cuda, and every "
            "process takes its own"
        )
    if (n_gpus := torch.cuda.device_count()) <= local:
        raise ValueError(
            f"there are {n_gpus} GPUs for the {n_local} processes of this machine; give torchrun "
            f"--nproc-per-node {n_gpus}, or --device cpu"
        )
    return torch.device("cuda", int(number or local))


def leave_job() -> None:
    """Leave the job that `join_job` joined."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    """Wait until every process of the job gets here."""
    if current_processes().world_size > 1:
        dist.barrier()


def average_gradients(module: nn.Module, processes: Processes) -> None:
    """Replace every gradient by its mean over processes, that of the loss of the whole batch (see `Processes`)."""
    if processes.world_size == 1:
        return
    for parameter in module.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= processes.world_size


def computed_once(work: Callable[[Tensor], Tensor], inputs: Iterable[Tensor]) -> Iterator[Tensor]:
    """work(each) for every input, computed by one process and sent to the others, so that all have the same bits.

    Args:
        work: gives a tensor of its input's shape and type.
        inputs: the same on every process.

    Returns:
        The results in order; in a single process they are computed one at a time, as they are asked for.
    """
    here = current_processes()
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
    here = current_processes()
    if here.world_size == 1:
        return [value]
    values: list[Any] = [None] * here.world_size
    dist.all_gather_object(values, value)
    return values
