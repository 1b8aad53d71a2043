"""How time and memory of a step scale with each size: fitted exponents, and those that `quadric plan` predicts.

python benchmarks/bench_scaling.py [--quick]
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import log
from statistics import linear_regression, median

import torch
from measure import alternate, peak_memory, write_table

from quadric.train import AutoencoderConfig, Learner, TrainingConfig
from quadric.train.cost import StepSize, step_flops, step_memory

BASE = StepSize(
    d_model=512, n_tokens=2048, n_latents=1024, n_hidden=2048, prior="composite", mixing_density=0.001
)  # fmt: skip
VARIED = {
    "n_tokens": (1024, 2048, 4096, 8192),
    "d_model": (256, 512, 1024),
    "n_latents": (512, 1024, 2048),
    "n_hidden": (1024, 2048, 4096),
    "mixing_density": (0.0005, 0.001, 0.002, 0.004),
}
LETTERS = {"n_tokens": "n", "d_model": "d", "n_latents": "k", "n_hidden": "h", "mixing_density": "density"}


def step(size: StepSize) -> Callable[[], object]:
    """Prepare a training step of that size on random tokens, after one warm-up step."""
    config = AutoencoderConfig(
        hook_point="x",
        prior=size.prior,
        n_latents=size.n_latents,
        n_hidden=None if size.prior == "atomic" else size.n_hidden,
        mixing_density=size.mixing_density,
        init="xavier",
    )
    autoencoder = config.build(size.d_model)
    if size.prior == "composite":
        autoencoder.set_mixing_density(size.mixing_density)  # type: ignore[operator]
    learner = Learner(autoencoder, config, TrainingConfig(steps=10**6, alpha_warmup_steps=1), step=9 * 10**5)
    tokens = torch.randn(size.n_tokens, size.d_model, generator=torch.Generator().manual_seed(0))
    learner.step(tokens)
    return lambda: learner.step(tokens)


def from_nothing(size: StepSize) -> Callable[[], object]:
    """Prepare creating the learner and running its first step; a tiny step initializes torch beforehand."""
    step(replace(size, n_tokens=8, d_model=8, n_latents=16, n_hidden=16))

    def run() -> None:
        step(size)

    return run


def exponent(sizes: list[float], values: list[float]) -> float:
    """Slope of log(value) against log(size)."""
    return linear_regression([log(size) for size in sizes], [log(value) for value in values]).slope


def varied(prior: str, name: str, quick: bool) -> list[StepSize]:
    """The base size with one dimension varied. Atomic latents are atoms, so k and h change together there."""
    shrink = 4 if quick else 1
    base = replace(BASE, **{each: getattr(BASE, each) // shrink for each in ("d_model", "n_hidden", "n_latents")})
    found = []
    for value in VARIED[name]:
        scaled = value if name in ("mixing_density", "n_tokens") else value // shrink
        size = replace(base, prior=prior, **{name: scaled})
        found.append(replace(size, n_latents=size.n_hidden) if prior == "atomic" else size)
    return found


def rows_of(prior: str, name: str, quick: bool) -> list[list[str]]:
    """Measured and predicted exponents of time and memory in one dimension."""
    sizes = varied(prior, name, quick)
    values = [float(getattr(size, name)) for size in sizes]
    taken = alternate({str(size): step(size) for size in sizes}, rounds=3)
    seconds = [median(each) for each in taken.values()]
    memory = [float(peak_memory(from_nothing, size)) for size in sizes]
    predicted = [step_flops(size).total for size in sizes], [float(step_memory(size).peak) for size in sizes]
    span = ", ".join(f"{value:g}" for value in values)
    return [
        [
            prior,
            f"{LETTERS[name]} = {span}",
            " / ".join(f"{each * 1e3:.0f}" for each in seconds),
            f"{exponent(values, seconds):.2f}",
            f"{exponent(values, predicted[0]):.2f}",
            " / ".join(f"{each / 2**20:.0f}" for each in memory),
            f"{exponent(values, memory):.2f}",
            f"{exponent(values, predicted[1]):.2f}",
        ]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of every width, written to scaling_quick")
    quick = parser.parse_args().quick
    rows = []
    for prior, names in {
        "composite": list(VARIED),
        "atomic": ["n_tokens", "n_hidden"],
        "quadratic": ["n_latents"],
    }.items():
        for name in names:
            rows += rows_of(prior, name, quick)
            print(*rows[-1], flush=True)
    write_table(
        "scaling_quick" if quick else "scaling",
        "Scaling of a training step",
        [
            "prior",
            "varied",
            "ms",
            "exponent of time",
            "of predicted FLOPs",
            "peak MiB",
            "exponent of memory",
            "of prediction",
        ],
        rows,
        f"Around d={BASE.d_model}, n={BASE.n_tokens}, k={BASE.n_latents}, h={BASE.n_hidden}, density "
        f"{BASE.mixing_density:.1%} (atomic: k=h), random tokens; medians of three interleaved rounds; memory is the "
        "increase from creating the autoencoder to the end of its first step, each in a fresh process. "
        "Exponents are log-log slopes over the range. The predicted ones are the slopes of `quadric.train.cost`, "
        "which `quadric plan` uses, over the same range, because a sum of terms of different degrees has no single "
        "exponent. `python benchmarks/bench_scaling.py`",
    )


if __name__ == "__main__":
    main()
