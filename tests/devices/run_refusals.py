"""Try everything that a character refuses, and some things that it does not, and write what happened.

`python -m tests.devices.run_refusals CHARACTER REPORT`.
"""

import json
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.devices import simulated


def attempts(device: torch.device) -> dict[str, list[Callable[[], object]]]:
    """For every refusal, ways to run into it."""
    host, ones, whole = torch.ones(3), torch.ones(3, device=device), torch.ones(3, dtype=torch.long, device=device)
    square, generator = torch.eye(3, device=device), torch.Generator()
    return {
        "mixed devices": [lambda: host + ones, lambda: torch.cat([ones, host]), lambda: square @ torch.eye(3)],
        "indices elsewhere": [lambda: host[whole], lambda: host[ones > 0]],
        "numpy": [lambda: ones.numpy(), lambda: np.asarray(ones)],
        "generator of the CPU": [
            lambda: torch.randn(3, device=device, generator=generator),
            lambda: torch.empty(3, device=device).normal_(generator=generator),
        ],
        "integer products": [lambda: whole[None] @ whole[:, None]],
        "results before they are there": [lambda: ones.to("cpu", non_blocking=True)],
        "sources that change under way": [lambda: host.to(device, non_blocking=True)],
        "a device that is not there": [lambda: torch.ones(1, device=f"{simulated.NAME}:3")],
        "float64": [lambda: ones.double(), lambda: host.double().to(device), lambda: ones.sum(dtype=torch.float64)],
        "sparse layouts": [lambda: csr(device)],
        "factorizations": [lambda: torch.linalg.qr(square), lambda: torch.linalg.eigh(square)],
    }


def csr(device: torch.device) -> torch.Tensor:
    """[[1, 0], [1, 1]]."""
    starts, columns, values = torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), torch.ones(3)
    given = (each.to(device) for each in (starts, columns, values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(*given, (2, 2), check_invariants=False)


def works(device: torch.device) -> dict[str, Any]:
    """What every accelerator does, on this one."""
    ones = torch.ones(3, device=device)
    weight = torch.nn.Parameter(torch.eye(3, device=device))
    (weight @ ones).square().sum().backward()
    assert weight.grad is not None
    torch.optim.Muon([weight], lr=0.1).step()
    copied = deepcopy(weight)
    memory = torch.empty(4, device=device)
    with torch.device("meta"):
        shell = torch.tensor([1.0])
    return {
        "accelerator": str(torch.accelerator.current_accelerator()),
        "gradient": weight.grad.tolist(),
        "copied": torch.equal(copied, weight) and isinstance(copied, torch.nn.Parameter),
        "counted": torch.arange(4, device=device).tolist(),
        "squeezed": list((ones @ torch.eye(3, device=device)).shape),
        "number of the CPU": (ones + torch.tensor(2.0)).tolist(),
        "index of the CPU": ones[torch.tensor([0, 1])].tolist(),
        "uninitialized": bool(memory.isnan().all()),
        "meta": shell.device.type,
        "sparse": _sparse(device),
    }


def _sparse(device: torch.device) -> Any:
    if not simulated.has("sparse layouts"):
        return None
    memory, dense = torch.empty(2, 1, device=device), torch.ones(2, 1, device=device)
    product = torch.addmm(memory, csr(device), dense, beta=0, out=memory)
    sampled = torch.sparse.sampled_addmm(csr(device), dense, 2 * dense.mT, beta=0.0)
    return [product.tolist(), sampled.values().tolist(), str(sampled.layout)]


def main(character: simulated.Character, report: str) -> None:
    """Write the error of every attempt, or None."""
    device = simulated.install(character)
    found: dict[str, Any] = {"works": works(device)}
    for name, tries in attempts(device).items():
        found[name] = [_error(attempt) for attempt in tries]
    Path(report).write_text(json.dumps(found))


def _error(attempt: Callable[[], object]) -> list[str] | None:
    try:
        attempt()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
