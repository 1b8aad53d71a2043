"""Targets: a composite step at least 6 times as fast as printed, with a quarter of the operations and half the memory;
atomic and quadratic steps at least 1.7 times as fast; a composite step at most 1.3 times as long as an atomic step with
as many atoms.

    python benchmarks/bench_step.py [--quick] [--only step|live|bfloat16]
    python benchmarks/bench_step.py --tree ../another-checkout     our steps, there and here in turn
"""

# Imports that load a language model are inside the functions that need them, because processes that only measure
# memory import this file too.
import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from jaxtyping import Float
from measure import (
    LAYER,
    alternate,
    counted_flops,
    layer_activations,
    median_and_spread,
    paper_settings,
    peak_and_result,
    write_table,
)
from paper_algorithm import PaperAutoencoder, PaperLearner
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from quadric.model import BilinearAutoencoder, Density, Error
from quadric.studies.planning.costs import phases
from quadric.train import Learner, Training
from quadric.train.learner import emulates_bfloat16

DENSITY, D_MODEL = 0.001, 576
LOSS = (Error(), Density(0.3, warmup=1))
IMPLEMENTATIONS = ("printed", "printed, float32", "ours")
ROUNDS, TOO_SLOW_TO_REPEAT = 3, 5.0
MOST_ENTRIES = 4_000_000
PRODUCTS, N_PRODUCTS, PRODUCT_SIZE = "products", 20, 1536
PRIORS = ("atomic", "composite", "quadratic")
GIGA, MEBI = 1e9, 2**20
STEPS_OF_TREE = """
import sys
import torch
from bench_step import our_learner
latents, hidden, tokens, width = map(int, sys.argv[2:])
learner, batch = our_learner(sys.argv[1], latents, hidden), torch.randn(tokens, width)
for _ in sys.stdin:
    learner.step(batch)
    print("done", flush=True)
"""
"""What a process with the code of one checkout runs: a step for every line that it reads."""


class Size(NamedTuple):
    n_tokens: int
    n_latents: int
    n_hidden: int

    def latents(self, prior: str) -> int:
        """Number of latents; for atomic it equals the number of atoms, so that all priors have equally many atoms."""
        return self.n_hidden if prior == "atomic" else self.n_latents


SIZES = (Size(2048, 512, 1024), Size(4096, 1152, 2304), Size(4096, 2048, 4096))
QUICK = (Size(512, 128, 256),)


def step(implementation: str, prior: str, size: Size, tokens: Float[Tensor, "n d"]) -> Callable[[], object]:
    """Prepare one training step on these tokens."""
    latents = size.latents(prior)
    if implementation != "ours":
        printed = PaperAutoencoder(D_MODEL, latents, size.n_hidden, prior)
        if prior == "composite":
            printed.set_mixing_density(DENSITY)
        learner = PaperLearner(printed, "bfloat16" if implementation == "printed" else "float32")
        return lambda: learner.step(tokens)
    ours = our_learner(prior, latents, size.n_hidden)
    return lambda: ours.step(tokens)


def our_learner(prior: str, n_latents: int, n_hidden: int) -> Learner:
    """A learner after annealing, when the mask is fixed."""
    autoencoder = paper_settings(prior, n_latents, DENSITY, n_hidden=n_hidden).build(D_MODEL)
    assert isinstance(autoencoder, BilinearAutoencoder)
    if prior == "composite":
        autoencoder.set_mixing_density(DENSITY)
    learner = Learner(autoencoder, LOSS, Training(steps=10**6))
    learner.step_index = 9 * 10**5
    return learner


def counted_without_running(implementation: str, prior: str, size: Size) -> int:
    """Operations of a step, counted from shapes alone."""
    with FakeTensorMode():
        return counted_flops(step(implementation, prior, size, torch.empty(size.n_tokens, D_MODEL)))


class FirstStep(NamedTuple):
    flops: int
    seconds: float


def first_step(implementation: str, prior: str, size: Size) -> Callable[[], FirstStep]:
    """Prepare a first step, counted and timed; it allocates the optimizer state. Random tokens suffice for both."""
    run = step(implementation, prior, size, torch.randn(size.n_tokens, D_MODEL))

    def counted() -> FirstStep:
        start = time.perf_counter()
        flops = counted_flops(run)
        return FirstStep(flops, time.perf_counter() - start)

    return counted


class Measured(NamedTuple):
    seconds: list[float]
    """Empty if the implementation was not run."""
    flops: int
    bytes: float
    """Median over fresh processes; NaN if the implementation was not run."""


def measured(prior: str, size: Size) -> tuple[dict[str, Measured], float]:
    """Measure all implementations of one step; returns them with the machine's matmul rate.

    Operations and peak memory come from first steps in separate processes. Times come from interleaved rounds, which
    also measure the matmul rate. An implementation that takes minutes per step is run once, and its first step is its
    time. One that would take a quarter of an hour is left to `bfloat16_table`.
    """
    implementations = [implementation for implementation in IMPLEMENTATIONS if is_feasible(implementation, prior, size)]
    firsts = {implementation: first_steps(implementation, prior, size) for implementation in implementations}
    tokens = layer_activations(size.n_tokens)
    quick = [implementation for implementation in implementations if len(firsts[implementation]) > 1]
    runs = {implementation: step(implementation, prior, size, tokens) for implementation in quick}
    seconds = alternate({**runs, PRODUCTS: products()}, rounds=ROUNDS)
    rate = 2 * N_PRODUCTS * PRODUCT_SIZE**3 / median(seconds[PRODUCTS])
    found = {}
    for implementation in IMPLEMENTATIONS:
        if implementation not in implementations:
            found[implementation] = Measured([], counted_without_running(implementation, prior, size), nan)
            continue
        _, result = firsts[implementation][0]
        peak = median(peak for peak, _ in firsts[implementation])
        found[implementation] = Measured(seconds.get(implementation, [result.seconds]), result.flops, peak)
    return found, rate


def products() -> Callable[[], object]:
    """Plain float32 matrix products, for the machine's peak rate."""
    left, right, product = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE) for _ in range(3))
    return lambda: [torch.mm(left, right, out=product) for _ in range(N_PRODUCTS)]


def is_feasible(implementation: str, prior: str, size: Size) -> bool:
    """Whether a step takes at most minutes. With emulated bfloat16, torch's Muon on a C of millions of entries takes a
    quarter of an hour."""
    return implementation != "printed" or prior == "atomic" or size.n_latents * size.n_hidden < MOST_ENTRIES


def first_steps(implementation: str, prior: str, size: Size) -> list[tuple[int, FirstStep]]:
    """Peak memory and result of first steps; repeated because malloc's peak varies, except with emulated bfloat16."""
    found = [peak_and_result(first_step, implementation, prior, size)]
    while len(found) < ROUNDS and (implementation != "printed" or found[0][1].seconds < TOO_SLOW_TO_REPEAT):
        found.append(peak_and_result(first_step, implementation, prior, size))
    return found


def predicted_flops(prior: str, size: Size) -> float:
    """Operations of a step by the formulas that `quadric plan` uses."""
    settings = paper_settings(prior, size.latents(prior), DENSITY, n_hidden=size.n_hidden)
    last = phases(settings, LOSS, D_MODEL, size.n_tokens, steps=10)[-1]
    return sum(last.size.flops().values())


def rows_of(prior: str, size: Size, found: dict[str, Measured], rate: float) -> list[list[str]]:
    """One row per implementation: speed, operations and memory relative to the printed algorithm."""
    printed, like_printed = found["printed"], found["printed, float32"]
    bytes_printed = printed.bytes if printed.seconds else like_printed.bytes
    rows = []
    for implementation, each in found.items():
        seconds = median(each.seconds) if each.seconds else nan
        formula = f"{predicted_flops(prior, size) / GIGA:,.0f}" if implementation == "ours" else "–"
        rows.append(
            [
                f"{prior}, n={size.n_tokens} k={size.latents(prior)} h={size.n_hidden}",
                implementation,
                median_and_spread(each.seconds) if each.seconds else "–",
                known(median(printed.seconds) / seconds if printed.seconds else nan, "×"),
                known(median(like_printed.seconds) / seconds, "×"),
                f"{each.flops / GIGA:,.0f}",
                formula,
                f"{each.flops / printed.flops:.2f}",
                known(each.bytes / MEBI, digits=0),
                known(each.bytes / bytes_printed),
                known(each.flops / seconds / rate),
            ]
        )
    return rows


def known(number: float, unit: str = "", digits: int = 2) -> str:
    return "–" if isnan(number) else f"{number:,.{digits}f}{unit}"


def step_table(sizes: tuple[Size, ...], name: str) -> None:
    """The main table, and composite against atomic steps with the same number of atoms."""
    load, rates, rows, ours = os.getloadavg()[0], [], [], {}
    for size in sizes:
        for prior in PRIORS:
            found, rate = measured(prior, size)
            rates.append(rate)
            rows += rows_of(prior, size, found, rate)
            print(*rows[-3:], sep="\n", flush=True)
            ours[prior, size] = median(found["ours"].seconds)
    against_atomic = ", ".join(f"{ours['composite', s] / ours['atomic', s]:.2f} at h={s.n_hidden}" for s in sizes)
    write_table(
        name,
        "One training step: the printed algorithm and ours",
        [
            "step",
            "implementation",
            "time, median (range)",
            "speedup over printed",
            "over printed, float32",
            "GFLOPs counted",
            "by formula",
            "relative to printed",
            "peak MiB",
            "relative to printed",
            "share of matmul rate",
        ],
        rows,
        f"d={D_MODEL}, composite density {DENSITY:.1%}; smollm2, residual stream into layer {LAYER}; {ROUNDS} "
        "interleaved rounds after a warm-up. *printed* is the paper's algorithm: dense C, plain autograd, "
        "torch.optim.Muon on all matrices. Its Newton–Schulz runs in bfloat16, for which this CPU has "
        f"{'no instructions' if emulates_bfloat16() else 'instructions'}, so there is a second baseline: the same in "
        "float32. Where a step of *printed* takes over "
        f"{TOO_SLOW_TO_REPEAT:.0f} s, only its first step is timed. Where C has over {MOST_ENTRIES:,} entries, a step "
        "takes a quarter of an hour, so only its operations are counted; see step_bfloat16.md. Peak memory: increase "
        "during the first step, including the optimizer state, median of fresh processes; relative to *printed*, or "
        "to *printed, float32* if that was not run. The formula assumes entries of C scattered at random. Matmul "
        f"rate: {N_PRODUCTS} float32 products of {PRODUCT_SIZE}³, interleaved with the steps, "
        f"{min(rates) / GIGA:,.0f} to {max(rates) / GIGA:,.0f} GFLOP/s here. "
        f"Time of a composite step divided by an atomic step with as many atoms: {against_atomic}. "
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_step.py`",
    )


def bfloat16_table(size: Size, name: str) -> None:
    """One composite step of the printed algorithm, which takes a quarter of an hour on CPUs that emulate bfloat16, and
    one of ours."""
    firsts = {
        implementation: peak_and_result(first_step, implementation, "composite", size)
        for implementation in ("printed", "printed, float32", "ours")
    }
    _, printed = firsts["printed"]
    write_table(
        name,
        "A composite step exactly as printed, and ours",
        ["implementation", "seconds of the first step", "speedup over printed", "peak MiB"],
        [
            [
                implementation,
                f"{result.seconds:,.1f}",
                f"{printed.seconds / result.seconds:,.1f}×",
                f"{peak / MEBI:,.0f}",
            ]
            for implementation, (peak, result) in firsts.items()
        ],
        f"d={D_MODEL}, n={size.n_tokens}, k={size.n_latents}, h={size.n_hidden}, density {DENSITY:.1%}; the "
        "first step, each in a fresh process. torch.optim.Muon multiplies in bfloat16, for which this CPU has "
        f"{'no instructions' if emulates_bfloat16() else 'instructions'}. "
        "`python benchmarks/bench_step.py --only bfloat16`",
    )


def live_table(n_batches: int, rounds: int, name: str) -> None:
    """The early-stopped language model alone, and with a composite step on every batch."""
    from quadric.data import ActivationConfig, BatchSize, LiveStream

    sequences = 16
    config = ActivationConfig(hook_points=str(LAYER), sequences_per_forward=8)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(sequences=sequences), prefetch=0)
    learner = our_learner("composite", 1024, 2048)
    batches = iter(stream)
    next(batches)
    seconds: dict[str, list[float]] = {"language model alone": [], "with a composite step": []}
    for _ in range(rounds):
        for implementation, taken in seconds.items():
            start, n_tokens = time.perf_counter(), 0
            for batch in islice(batches, n_batches):
                n_tokens += len(batch)
                if implementation != "language model alone":
                    learner.step(batch.activations[stream.hook_points[0]])
            taken.append((time.perf_counter() - start) / n_tokens)
    alone, trained = (median(taken) for taken in seconds.values())
    write_table(
        name,
        "Live training against the language model alone",
        ["work", "tokens/s, median", "time relative to the language model alone"],
        [
            [implementation, f"{1 / median(taken):,.0f}", f"{median(taken) / alone:.2f}×"]
            for implementation, taken in seconds.items()
        ],
        f"smollm2 stopped at layer {LAYER}, {sequences} sequences of 256 tokens per batch, {n_batches} batches per "
        f"round, {rounds} interleaved rounds, always new text; composite k=1024, h=2048, density {DENSITY:.1%}, no "
        f"prefetching. A step takes {trained / alone - 1:.0%} of the language model's time, and both run one after "
        "the other on the same two cores; see the step table for details. `python benchmarks/bench_step.py`",
    )


@contextmanager
def in_tree(tree: Path, prior: str, size: Size) -> Iterator[Callable[[], object]]:
    """Our step on random tokens, by the code of a checkout, in a process of its own."""
    numbers = map(str, (size.latents(prior), size.n_hidden, size.n_tokens, D_MODEL))
    environment = os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'benchmarks'}"}
    command = [sys.executable, "-P", "-c", STEPS_OF_TREE, prior, *numbers]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        asked, answered = worker.stdin, worker.stdout

        def run() -> None:
            print("step", file=asked, flush=True)
            if not answered.readline():
                raise RuntimeError(f"the steps of '{tree}' ended early; see its error above")

        yield run
        asked.close()


def tree_table(tree: Path, sizes: tuple[Size, ...], name: str) -> None:
    """Our steps in another checkout and here, in turn."""
    rows, here = [], Path(__file__).parents[1]
    for size, prior in product(sizes, PRIORS):
        with in_tree(tree.resolve(), prior, size) as theirs, in_tree(here, prior, size) as ours:
            seconds = alternate({"there": theirs, "here": ours})
        ratio = median(seconds["there"]) / median(seconds["here"])
        sizes_said = f"{prior}, n={size.n_tokens} k={size.latents(prior)} h={size.n_hidden}"
        rows.append([sizes_said, *map(median_and_spread, seconds.values()), f"{ratio:.2f}×"])
    write_table(
        name,
        "One training step in two checkouts",
        ["step", "there, median (range)", "here", "speedup"],
        rows,
        f"d={D_MODEL}, composite density {DENSITY:.1%}; random tokens; interleaved rounds after a warm-up, each "
        "checkout in a process of its own. `python benchmarks/bench_step.py --tree`",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes for trying the script, written under another name"
    )
    parser.add_argument(
        "--only",
        choices=["step", "live", "bfloat16"],
        help="one table; bfloat16 takes a quarter of an hour and never runs by default",
    )
    parser.add_argument("--tree", type=Path, help="another checkout, whose steps are timed in turn with ours, alone")
    options = parser.parse_args()
    ending = "_quick" if options.quick else ""
    if options.tree is not None:
        tree_table(options.tree, QUICK if options.quick else SIZES, f"step_trees{ending}")
        return
    if options.only in (None, "step"):
        step_table(QUICK if options.quick else SIZES, f"step{ending}")
    if options.only == "bfloat16":
        bfloat16_table((QUICK if options.quick else SIZES)[-1], f"step_bfloat16{ending}")
    if options.only in (None, "live"):
        live_table(1 if options.quick else 3, 1 if options.quick else 3, f"live{ending}")


if __name__ == "__main__":
    main()
