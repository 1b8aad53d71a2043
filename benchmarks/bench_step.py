"""Claims: a composite step at least 6 times as fast as printed with a quarter of the work and half of the memory;
atomic and quadratic at least 1.7 times; composite at most 1.3 times an atomic step with as many atoms.

    python benchmarks/bench_step.py [--quick]
"""

# Imports that pull in a language model stand in the functions that need them: a process that only measures memory
# imports this file too.
import argparse
import os
import time
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

from measure import alternate, median_and_spread, peak_memory, write_table
from steps import D_MODEL, DENSITY, WAYS, Size, our_learner, step, warm_step

from quadric.autoencoders.mixing import Prior
from quadric.training.cost import StepSize, step_flops
from quadric.training.counting import counted_flops
from quadric.training.machine import matmul_rate

ROUNDS, LAYER = 3, 15
PRIORS: tuple[Prior, ...] = ("atomic", "composite", "quadratic")
GIGA, MEBI = 1e9, 2**20


SIZES = (Size(2048, 512, 1024), Size(4096, 1152, 2304), Size(4096, 2048, 4096))
QUICK = (Size(512, 128, 256), Size(512, 256, 512))


class Measured(NamedTuple):
    seconds: list[float]
    flops: int
    bytes: int


def measured(prior: Prior, size: Size) -> dict[str, Measured]:
    """Time in turns, operations as counted, and peak memory in a process of its own, of every way."""
    from tokens import layer_tokens

    tokens = layer_tokens(size.n_tokens)
    runs = {way: step(way, prior, size, tokens) for way in WAYS}
    flops = {way: counted_flops(run) for way, run in runs.items()}
    seconds = alternate(runs, rounds=ROUNDS)
    del runs
    return {way: Measured(seconds[way], flops[way], peak_memory(warm_step, way, prior, size)) for way in WAYS}


def predicted_flops(prior: Prior, size: Size) -> float:
    """By the formulas that `quadric plan` uses."""
    return step_flops(
        StepSize(
            d_model=D_MODEL,
            n_tokens=size.n_tokens,
            n_latents=size.latents(prior),
            n_hidden=size.n_hidden,
            prior=prior,
            mixing_density=DENSITY if prior == "composite" else 1.0,
        )
    ).total


def rows_of(prior: Prior, size: Size, found: dict[str, Measured], rate: float) -> list[list[str]]:
    """One line a way: how much faster, how much less work and memory than printed."""
    base, rows = found["printed"], []
    for way, each in found.items():
        seconds = median(each.seconds)
        ratio = median(a / b for a, b in zip(base.seconds, each.seconds, strict=True))
        formula = f"{predicted_flops(prior, size) / GIGA:,.0f}" if way == "ours" else "–"
        rows.append(
            [
                f"{prior}, n={size.n_tokens} k={size.latents(prior)} h={size.n_hidden}",
                way,
                median_and_spread(each.seconds),
                f"{ratio:.2f}×",
                f"{each.flops / GIGA:,.0f}",
                formula,
                f"{each.flops / base.flops:.2f}",
                f"{each.bytes / MEBI:,.0f}",
                f"{each.bytes / base.bytes:.2f}",
                f"{each.flops / seconds / rate:.2f}",
            ]
        )
    return rows


def step_table(sizes: tuple[Size, ...], name: str) -> None:
    """The main table, and composite against atomic at the same number of atoms."""
    load, rates, rows, ours = os.getloadavg()[0], [matmul_rate()], [], {}
    for size in sizes:
        for prior in PRIORS:
            found = measured(prior, size)
            rates.append(matmul_rate())
            rows += rows_of(prior, size, found, max(rates))
            ours[prior, size] = median(found["ours"].seconds)
    against_atomic = ", ".join(f"{ours['composite', s] / ours['atomic', s]:.2f} at h={s.n_hidden}" for s in sizes)
    write_table(
        name,
        "One training step, as printed and ours",
        [
            "step",
            "way",
            "time, median (range)",
            "speed",
            "GFLOP counted",
            "by formula",
            "of printed",
            "peak MiB",
            "of printed",
            "of matmul rate",
        ],
        rows,
        f"d={D_MODEL}, composite density {DENSITY:.1%}; smollm2 activations into layer {LAYER}; {ROUNDS} rounds in "
        "turns after one warm-up; speed is the median over rounds of printed time / time. Printed: dense C, plain "
        "autograd, torch.optim.Muon on all matrices; its own Newton–Schulz runs in bfloat16, which this CPU multiplies "
        "slowly, hence the second baseline with our Muon in its place. Peak memory: rise over the prepared process, a "
        "fresh process each. The formula assumes entries of C scattered at random. This machine's float32 matmul rate, "
        f"best of {len(rates)} probes between the measurements: {max(rates) / GIGA:,.0f} GFLOP/s (lowest probe "
        f"{min(rates) / GIGA:,.0f}). Composite step time over atomic with as many atoms: {against_atomic}. "
        f"Load when it began: {load:.1f}. `python benchmarks/bench_step.py`",
    )


def live_table(n_batches: int, rounds: int, name: str) -> None:
    """The early-stopped language model alone, and with a composite step on every batch."""
    from quadric.activations import ActivationConfig, BatchSize, LiveStream

    sequences = 16
    config = ActivationConfig(hook_points=str(LAYER), sequences_per_forward=8)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(sequences=sequences), prefetch=0)
    learner = our_learner("composite", 1024, 2048)
    batches = iter(stream)
    next(batches)
    seconds: dict[str, list[float]] = {"language model alone": [], "with a composite step": []}
    for _ in range(rounds):
        for way, taken in seconds.items():
            start, n_tokens = time.perf_counter(), 0
            for batch in islice(batches, n_batches):
                n_tokens += len(batch)
                if way != "language model alone":
                    learner.step(batch.activations[stream.hook_points[0]])
            taken.append((time.perf_counter() - start) / n_tokens)
    alone, trained = (median(taken) for taken in seconds.values())
    write_table(
        name,
        "Live training against the language model alone",
        ["way", "tokens/s, median", "time against the language model alone"],
        [[way, f"{1 / median(taken):,.0f}", f"{median(taken) / alone:.2f}×"] for way, taken in seconds.items()],
        f"smollm2 stopped at layer {LAYER}, {sequences} sequences of 256 tokens a batch, {n_batches} batches a round, "
        f"{rounds} rounds in turns, fresh text each; composite k=1024, h=2048, density {DENSITY:.1%}, no prefetching. "
        f"What limits it: the step takes {trained / alone - 1:.0%} of the language model's own time, and two cores do "
        "both in turn; see the step table for its parts. `python benchmarks/bench_step.py`",
    )


def peer_table(n_latents: tuple[int, ...], n_tokens: int, name: str) -> None:
    """Tokens a second of composite training and of linear peers at equal k."""
    from peers import PEERS, peer_speed
    from tokens import layer_tokens

    rows: list[list[str]] = []
    for k in n_latents:
        tokens = layer_tokens(n_tokens)
        learner = our_learner("composite", k, 2 * k)
        ours = alternate({"ours": lambda learner=learner, tokens=tokens: learner.step(tokens)}, rounds=5)["ours"]
        speeds: dict[str, Any] = {"quadric composite": n_tokens / median(ours)}
        speeds |= {peer: peer_speed(peer, tokens, k) for peer in PEERS}
        for way, speed in speeds.items():
            share = f"{speeds['quadric composite'] / speed:.2f}"
            rows.append([f"k={k}", way, f"{speed:,.0f}", share])
    write_table(
        name,
        "Training speed against linear peers",
        ["size", "trainer", "tokens/s", "quadric's speed relative to it"],
        rows,
        f"d={D_MODEL}, {n_tokens} tokens a step, float32, TopK with 32 active latents, each library's own class, loss "
        "and usual optimiser, medians of five steps after a warm-up, one after another on the same activations; "
        "quadric composite has two atoms a latent and 0.1 % of C. `python benchmarks/bench_step.py`",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under its own name: to try the script")
    parser.add_argument("--only", choices=["step", "live", "peers"], help="one of the three tables")
    options = parser.parse_args()
    ending = "_quick" if options.quick else ""
    if options.only in (None, "step"):
        step_table(QUICK if options.quick else SIZES, f"step{ending}")
    if options.only in (None, "live"):
        live_table(1 if options.quick else 3, 1 if options.quick else 3, f"live{ending}")
    if options.only in (None, "peers"):
        peer_table((256,) if options.quick else (1152, 2048), 1024 if options.quick else 4096, f"peers{ending}")


if __name__ == "__main__":
    main()
