"""Dictionaries whose C, G and K do not fit in memory: up to 65,536 latents of 131,072 atoms at d = 128.

python benchmarks/bench_large.py [--steps 12] [--tokens 1024] [--n-latents 16384 32768 65536] [--learning-rate 0.01]

Activations of smollm2 on the packaged text, into layer 15, projected on their first 128 principal directions. Every
dictionary is trained by quadric.fit in a fresh process.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from jaxtyping import Float
from measure import peak_and_result, write_table
from torch import Tensor

import quadric
from quadric.data.sources import as_activations
from quadric.model.objective import product_space_error, unit_tokens
from quadric.train.cost import StepSize, step_flops, step_memory
from quadric.train.timing import lifted_work, measure_rates

WORK = Path(tempfile.gettempdir()) / "quadric-benchmarks"
WIDTH, ATOMS, STRONGEST = 128, 16, 32
TRAINED_ON, HELD_OUT = 100_000, 512


class Result(NamedTuple):
    """One dictionary's training."""

    build_seconds: float
    step_seconds: float
    cpu_seconds: float
    predicted_seconds: float
    first_error: float
    last_error: float
    held_out_error: float
    peak_bytes: int
    """Largest resident memory of the process, with activations and libraries."""


def activations(split: str, count: int) -> Float[Tensor, "n d"]:
    """Harvested on first use."""
    folder = WORK / f"smollm2-15-{split}"
    if not folder.exists():
        quadric.harvest("smollm2", "wiki-leads", layer=15, tokens=110_000 if split == "train" else 24_000, out=folder)
    batch = next(iter(as_activations(str(folder)).stream(batch_tokens=count, seed=None)))
    (rows,) = batch.activations.values()
    return unit_tokens(rows)


def projected() -> tuple[Float[Tensor, "n d"], Float[Tensor, "m d"]]:
    """Training and held-out tokens on the training tokens' first principal directions."""
    train, held_out = activations("train", TRAINED_ON), activations("held_out", HELD_OUT)
    directions = torch.linalg.eigh(train.mT @ train).eigenvectors[:, -WIDTH:]
    return train @ directions, held_out @ directions


def size_of(n_latents: int, n_tokens: int) -> StepSize:
    """Any step: C starts with its final number of entries."""
    return StepSize(
        d_model=WIDTH + 1, n_tokens=n_tokens, n_latents=n_latents, n_hidden=2 * n_latents, prior="composite",
        mixing_density=ATOMS / (2 * n_latents), top_latents=STRONGEST,
    )  # fmt: skip


def training(n_latents: int, n_tokens: int, steps: int, rate: float, threads: int) -> Callable[[], Result]:
    """Prepare a training run, and the prediction of its step."""
    torch.set_num_threads(threads)
    train, held_out = projected()
    size = size_of(n_latents, n_tokens)
    predicted = lifted_work(size).seconds(measure_rates(size))

    def run() -> Result:
        moments, errors = [(time.perf_counter(), time.process_time())], []

        def note(step: int, report: object) -> None:
            moments.append((time.perf_counter(), time.process_time()))
            errors.append(report.error)  # type: ignore[attr-defined]

        ae = quadric.fit(
            train, n_latents, atoms_per_latent=ATOMS, initial_density=ATOMS / (2 * n_latents),
            overlap_penalty=0, top_latents=STRONGEST, steps=steps, batch_tokens=n_tokens, learning_rate=rate,
            progress=False, callback=note,
        )  # fmt: skip
        assert isinstance(ae, quadric.BilinearAutoencoder)
        assert ae.error_path == "lifted"
        taken = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(moments)]
        late = taken[len(taken) // 2 :]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        with torch.no_grad():
            error = ae.error(held_out).mean().item()
        return Result(
            taken[0][0] - median(each[0] for each in late), median(each[0] for each in late),
            median(each[1] for each in late), predicted, errors[0], errors[-1], error, peak,
        )  # fmt: skip

    return run


def mean_error() -> float:
    """Held-out error of the mean training token in every token's place."""
    train, held_out = projected()
    return product_space_error(unit_tokens(held_out), train.mean(0).expand_as(held_out)).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--n-latents", type=int, nargs="+", default=[16_384, 32_768, 65_536])
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--name", default="large", help="of the table in benchmarks/results")
    options = parser.parse_args()
    rows = []
    for k in options.n_latents:
        sizes = (k, options.tokens, options.steps, options.learning_rate)
        _, found = peak_and_result(training, *sizes, torch.get_num_threads())
        size = size_of(k, options.tokens)
        rows.append(
            [
                f"{k:,}", f"{2 * k:,}", f"{step_flops(size).total / 1e9:,.0f}", f"{found.step_seconds:.1f}",
                f"{found.cpu_seconds:.1f}", f"{found.predicted_seconds:.1f}",
                f"{found.predicted_seconds / found.step_seconds:.2f}", f"{found.peak_bytes / 2**30:.1f}",
                f"{step_memory(size).peak / 2**30:.1f}", f"{found.first_error:.3f} → {found.last_error:.3f}",
                f"{found.held_out_error:.3f}",
            ]
        )  # fmt: skip
        print(*rows[-1], flush=True)
    write_table(
        options.name,
        "Dictionaries that do not fit the dense phase",
        [
            "k", "h", "GFLOPs per step", "s per step", "CPU s", "predicted s", "ratio", "peak GiB", "predicted GiB",
            "training error, first and last step", "held-out error of xxᵀ",
        ],
        rows,
        f"d = {WIDTH}: smollm2 layer 15 on its first {WIDTH} principal directions, affine lens, {ATOMS} atoms "
        f"per latent from the start, {STRONGEST} strongest latents, {options.steps} steps, "
        f"batches of {options.tokens:,} tokens, learning rate {options.learning_rate:g}. "
        "Steps are medians of the second half; predictions are those of "
        "`quadric plan` (`quadric.train.timing`), memory is the whole process's with libraries and tokens, each in "
        f"a fresh process. The mean training token in every token's place has a held-out error of {mean_error():.3f}; "
        f"the held-out error is that of all latents on {HELD_OUT} tokens. `python benchmarks/bench_large.py`",
    )  # fmt: skip


if __name__ == "__main__":
    main()
