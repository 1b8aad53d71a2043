"""Claim: the blocked error needs less than a quarter of the dense error's memory at k = 8,192, n = 512, d = 256."""

from collections.abc import Callable

import torch
from measure import peak_memory, write_table

from quadric import BilinearAutoencoder

D_MODEL, N_LATENTS, N_TOKENS, BLOCK = 256, 8192, 512, 1024


def step(prior: str, block_size: int | None) -> Callable[[], object]:
    """Prepare a forward and backward pass of the loss."""
    ae = BilinearAutoencoder(
        d_model=D_MODEL, n_latents=N_LATENTS, prior=prior, init="xavier", block_size=block_size
    )  # fmt: skip
    tokens = torch.randn(N_TOKENS, D_MODEL, generator=torch.Generator().manual_seed(0))
    return lambda: ae.loss(tokens, 0.3).total.backward()


def main() -> None:
    rows = []
    for prior in ("atomic", "composite"):
        dense, blocked = (peak_memory(step, prior, block) for block in (None, BLOCK))
        rows.append([prior, f"{dense / 2**20:,.0f}", f"{blocked / 2**20:,.0f}", f"{blocked / dense:.3f}"])
    write_table(
        "blocked_memory",
        "Peak memory of the error, dense against blocked",
        ["prior", "dense, MiB", f"blocks of {BLOCK}, MiB", "ratio"],
        rows,
        f"Forward and backward pass of `ae.loss` at d={D_MODEL}, k={N_LATENTS}, n={N_TOKENS}; composite has twice as "
        "many atoms as latents and C at 0.1 % density. Memory is the increase in peak resident memory during the "
        "pass, each in a fresh process. "
        "`python benchmarks/bench_blocked_memory.py`",
    )


if __name__ == "__main__":
    main()
