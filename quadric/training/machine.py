"""The speed of this machine."""

import time

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
