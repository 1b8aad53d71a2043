"""Target: two gloo processes of one thread each make a composite step at least 1.6 times as fast as one process of one
thread, on the same tokens and with the same losses.

    python benchmarks/bench_sharing.py [--quick]

Starts itself once per process with the environment that torchrun would give; one and two processes take turns.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from measure import write_table
from training_steps import D_MODEL, DENSITY

from quadric.model.mixing import Prior
from quadric.train import AutoencoderConfig, Learner, TrainingConfig
from quadric.train.cost import StepSize, step_flops
from quadric.train.distributed import join_job, leave_job

WORLD_SIZES, ROUNDS, STEPS = (1, 2), 3, 4
PAPER_TOKENS, PAPER_PROCESSES = 8192, (2, 4, 8)


class Case(NamedTuple):
    """One kind of step."""

    name: str
    prior: Prior
    density: float
    n_tokens: int = 4096
    n_latents: int = 1152
    n_hidden: int = 2304

    def size(self, n_processes: int = 1) -> StepSize:
        return StepSize(
            d_model=D_MODEL,
            n_tokens=self.n_tokens // n_processes,
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            prior=self.prior,
            mixing_density=self.density,
            n_processes=n_processes,
        )


CASES = (
    Case("composite, sparse C", "composite", DENSITY),
    Case("composite, dense C", "composite", 0.5),
    Case("atomic", "atomic", 1.0, n_latents=2304),
    Case("quadratic", "quadratic", 1.0),
)
QUICK = tuple(case._replace(n_tokens=512, n_latents=case.n_latents // 4, n_hidden=576) for case in CASES)


def learner_of(case: Case) -> Learner:
    """A learner whose mask is fixed, so that every step costs the same."""
    config = AutoencoderConfig(hook_point="x", prior=case.prior, n_latents=case.n_latents, n_hidden=case.n_hidden)
    autoencoder = config.build(D_MODEL)
    if case.prior == "composite":
        autoencoder.set_mixing_density(case.density)  # type: ignore[operator]
    return Learner(autoencoder, config, TrainingConfig(steps=10**6, alpha_warmup_steps=1), step=9 * 10**5)


def run_steps(case: Case) -> dict[str, Any]:
    """Wall and CPU seconds per step, losses and peak memory of this process."""
    torch.set_num_threads(1)
    rank = join_job()
    learner = learner_of(case)
    tokens = torch.randn(case.n_tokens, D_MODEL, generator=torch.Generator().manual_seed(0))
    own = tokens[rank.number :: rank.world_size]
    errors, seconds, cpu_seconds = [learner.step(own).error], [], []  # a warm-up
    for _ in range(STEPS):
        wall, cpu = time.perf_counter(), time.process_time()
        errors.append(learner.step(own).error)
        seconds.append(time.perf_counter() - wall)
        cpu_seconds.append(time.process_time() - cpu)
    leave_job()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "errors": errors, "peak_mib": peak}


def run_job(case: Case, n_processes: int) -> list[dict[str, Any]]:
    """`run_steps` in new processes, one thread each; returns the results of all."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job = {"WORLD_SIZE": n_processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "bench"}
    command = [sys.executable, __file__, "--worker", json.dumps(case)]
    processes = []
    for rank in range(n_processes):
        variables = {**job, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": 1}
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a process of {case.name} on {n_processes} failed; see the messages above")
    return [json.loads(output) for output in outputs]


def row_of(case: Case, rounds: int) -> list[str]:
    """One and two processes in alternating rounds."""
    found: dict[int, list[dict[str, Any]]] = {n_processes: [] for n_processes in WORLD_SIZES}
    for _ in range(rounds):
        for n_processes in WORLD_SIZES:
            found[n_processes] += run_job(case, n_processes)
    one, two = found.values()
    difference = max(abs(a - b) / b for a, b in zip(two[0]["errors"], one[0]["errors"], strict=True))
    flops = step_flops(case.size()).total
    return [
        f"{case.name}, n={case.n_tokens} k={case.n_latents} h={case.n_hidden}",
        f"{_typical(one, 'seconds'):.2f}",
        f"{_typical(two, 'seconds'):.2f}",
        f"{_typical(one, 'seconds') / _typical(two, 'seconds'):.2f}×",
        f"{_typical(one, 'cpu_seconds'):.2f}",
        f"{_typical(two, 'cpu_seconds'):.2f}",
        f"{flops / step_flops(case.size(2)).total:.2f}×",
        f"{_peak(one):.0f}",
        f"{_peak(two):.0f}",
        f"{difference:.0e}",
    ]


def _typical(results: list[dict[str, Any]], field: str) -> float:
    return median(value for result in results for value in result[field])


def _peak(results: list[dict[str, Any]]) -> float:
    return median(result["peak_mib"] for result in results)


def paper_note() -> str:
    """Sharing at the paper's size, by the formulas of `quadric plan`."""
    lines = []
    for name, density in (("sparse", DENSITY), ("dense", 1.0)):
        alone = StepSize(
            d_model=1024,
            n_tokens=PAPER_TOKENS,
            n_latents=8192,
            n_hidden=16384,
            prior="composite",
            mixing_density=density,
        )
        total = step_flops(alone).total
        shares = []
        for n_processes in PAPER_PROCESSES:
            fields = {**alone.__dict__, "n_tokens": PAPER_TOKENS // n_processes, "n_processes": n_processes}
            shares.append(f"{total / n_processes / step_flops(StepSize(**fields)).total:.2f} on {n_processes}")
        lines.append(f"with {name} C ({total / 1e12:.1f} TFLOPs) {', '.join(shares)} processes")
    return "; ".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="part of the name of a step")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(run_steps(Case(*json.loads(options.worker)))))
        return
    load = os.getloadavg()[0]
    cases = [case for case in (QUICK if options.quick else CASES) if (options.only or "") in case.name]
    rows = []
    for case in cases:
        rows.append(row_of(case, 1 if options.quick else ROUNDS))
        print(*rows[-1], sep=" | ", flush=True)
    write_table(
        "sharing_quick" if options.quick else "sharing",
        "One training step on one and on two processes",
        [
            "step",
            "s per step, one",
            "two",
            "speedup",
            "CPU s per step, one",
            "two, each",
            "speedup by FLOPs",
            "peak MiB, one",
            "two, each",
            "largest difference of the error",
        ],
        rows,
        f"d={D_MODEL}, composite density {DENSITY:.1%} with sparse C; random tokens, the same in total; gloo on one "
        f"machine, one thread per process; medians of {STEPS} steps after a warm-up, rounds of one and two processes "
        "alternate. Peak memory is that of the whole process, torch included. The last column is relative to the error "
        "of one process. Share of perfect sharing at the paper's size, n = 8,192 in total, d = 1,024, k = 8,192, "
        f"h = 16,384, by FLOPs of the busiest process: {paper_note()}. Load average at the start: {load:.1f}. "
        "`python benchmarks/bench_sharing.py`",
        Path(__file__).parent / "results",
    )


if __name__ == "__main__":
    main()
