"""What this machine can do, and how fast."""

import time
from typing import Any

import torch


def matmul_rate(size: int = 1536, seconds: float = 1.0) -> float:
    """FLOPs per second of float32 matrix products on the CPU: the best of as many as fit in the given time."""
    left, right, product = (torch.randn(size, size) for _ in range(3))
    torch.mm(left, right, out=product)
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(left, right, out=product)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def emulates_bfloat16() -> bool:
    """Whether this CPU is known to lack instructions for products in bfloat16."""
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return found.get("architecture") == "x86_64" and not (found.get("avx512_bf16") or found.get("amx_bf16"))
