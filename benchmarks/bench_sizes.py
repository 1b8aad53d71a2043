"""Target: the default dictionary trains at every size that it accepts: seconds per step, memory, and what was chosen.

python benchmarks/bench_sizes.py [--quick]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from measure import peak_and_result, write_table
from torch import Tensor

import quadric
from quadric.model.bilinear import BilinearAutoencoder
from quadric.train import Learner


class Size(NamedTuple):
    n_latents: int
    d_model: int
    n_tokens: int


SIZES = (Size(32, 64, 2048), Size(512, 576, 2048), Size(4_608, 576, 2048), Size(16_384, 1024, 512),
         Size(65_536, 1024, 256))  # fmt: skip
QUICK = (Size(32, 16, 64), Size(64, 16, 64))
STEPS = 3


def training(size: Size) -> Callable[[], list[str]]:
    """Prepare a few steps with defaults, which describe themselves."""
    x = torch.randn(size.n_tokens * STEPS, size.d_model, generator=torch.Generator().manual_seed(0))
    return partial(trained, size, x)


def trained(size: Size, x: Tensor) -> list[str]:
    ends: list[float] = []

    def watch(learner: Learner) -> None:
        ends.append(time.perf_counter())

    ae = quadric.fit(x, size.n_latents, steps=STEPS, batch_tokens=size.n_tokens, progress=False, callbacks=[watch])
    assert isinstance(ae, BilinearAutoencoder)
    loss = ", ".join(map(str, ae.settings.default_loss()))
    seconds = (ends[-1] - ends[0]) / (STEPS - 1)
    start = ae.settings.resolved(size.d_model)
    return [f"{seconds:.2f} s", f"{getattr(start, 'initial_density', 1) * ae.n_hidden:.0f}", loss]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying the script")
    quick = parser.parse_args().quick
    rows: list[list[str]] = []
    for size in QUICK if quick else SIZES:
        peak, described = peak_and_result(training, size)
        rows.append(
            [f"{size.n_latents:,}", str(size.d_model), f"{size.n_tokens:,}", f"{peak / 2**30:.2f} GiB", *described]
        )
        print(rows[-1], flush=True)
    write_table(
        f"sizes{'_quick' if quick else ''}",
        "The default dictionary at every size",
        [
            "latents",
            "d",
            "tokens per step",
            "peak memory",
            "time per step",
            "atoms per latent at first",
            "error by",
            "loss",
        ],
        rows,
        f"`quadric.fit(x, n_latents)` on random tokens, steps 2 to {STEPS}. Peak memory: increase while training, with "
        "parameters and the state of optimizers. `python benchmarks/bench_sizes.py`",
    )


if __name__ == "__main__":
    main()
