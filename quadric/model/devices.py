"""Where things are computed: on the device of the dictionary, and on the CPU what that device lacks.

A dictionary lives where it was put: `fit` returns it on the device it was trained on, `load` on the CPU. Public
functions take rows from any device and numpy arrays, move them to the dictionary, and return results on its device;
tables and reports are numpy. torch.accelerator names the accelerator, so nothing here lists devices by name, and what a
device lacks is found by trying: MPS has neither float64 nor sparse layouts.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CPU = torch.device("cpu")
Rows = Tensor | np.ndarray
"""Activations as users give them."""


def device_of(module: nn.Module) -> torch.device:
    """Where a dictionary or a model is."""
    return next(module.parameters()).device


def accelerator() -> torch.device | None:
    """The accelerator of this machine, with the number of the one in use; None if there is none."""
    if (found := torch.accelerator.current_accelerator(check_available=True)) is None:
        return None
    return torch.device(found.type, torch.accelerator.current_device_index())


def rows_on(x: Rows, device: torch.device) -> Tensor:
    """Rows of any device, or a numpy array, on this device; `check_tokens` refuses anything else."""
    if isinstance(x, np.ndarray):
        x = torch.as_tensor(x if x.flags.writeable else x.copy())
    if not isinstance(x, Tensor) or x.device == device:
        return x
    return x.to(device, torch.float32 if x.dtype == torch.float64 and not has_float64(device) else None)


def exact(tensor: Tensor) -> Tensor:
    """The tensor in float64: on its own device, or on the CPU if that has no float64."""
    return tensor.to(exact_device(tensor.device)).double()


def exact_device(device: torch.device) -> torch.device:
    """Where float64, and the factorizations that need it, are computed for tensors of this device."""
    return device if has_float64(device) else CPU


def factored(factorize: Callable[[Tensor], Any], matrices: Tensor) -> Any:
    """A factorization in the precision of the matrices: on the CPU where float64 is, since MPS lacks several."""
    return tuple(each.to(matrices.device) for each in factorize(matrices.to(exact_device(matrices.device))))


def copy_on(module: nn.Module, device: torch.device) -> Any:
    """The module itself if it is on this device, else a copy that is."""
    tensors = [*module.parameters(), *module.buffers()]
    return module if all(each.device == device for each in tensors) else deepcopy(module).to(device)


def has_float64(device: torch.device) -> bool:
    """Whether the device has float64."""
    return device == CPU or _works(device.type, _float64)


def has_csr(device: torch.device) -> bool:
    """Whether the device multiplies CSR tensors."""
    return device == CPU or _works(device.type, _csr)


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device is an accelerator that computes bfloat16 in hardware, where it is faster than float32."""
    return device != CPU and _works(device.type, _bfloat16)


@cache
def _works(kind: str, attempt: Callable[[str], object]) -> bool:
    try:
        attempt(kind)
    except (RuntimeError, TypeError):  # NotImplementedError is a RuntimeError
        return False
    return True


def _float64(kind: str) -> None:
    torch.zeros(1, dtype=torch.float64, device=kind)


def _bfloat16(kind: str) -> None:
    supported = getattr(torch.get_device_module(kind), "is_bf16_supported", None)
    if supported is None or not supported(including_emulation=False):
        raise TypeError(f"{kind} has no bfloat16 in hardware")


def _csr(kind: str) -> None:
    starts, column, one = (torch.tensor(each, device=kind) for each in ([0, 1], [0], [1.0]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        matrix = torch.sparse_csr_tensor(starts, column, one, (1, 1), check_invariants=False)
    torch.addmm(one[:, None], matrix, one[:, None])
