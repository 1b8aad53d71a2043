"""One training step of the paper's algorithm or of ours, for `bench_step.py`.

Imports little, because every memory measurement starts a new process that imports this file.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from paper_algorithm import PaperAutoencoder, PaperLearner
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from quadric.model.mixing import Prior
from quadric.train import AutoencoderConfig, Learner, TrainingConfig
from quadric.train.counting import counted_flops

DENSITY, D_MODEL = 0.001, 576
IMPLEMENTATIONS = ("printed", "printed, float32", "ours")


class Size(NamedTuple):
    n_tokens: int
    n_latents: int
    n_hidden: int

    def latents(self, prior: Prior) -> int:
        """Number of latents; for atomic it equals the number of atoms, so that all priors have equally many atoms."""
        return self.n_hidden if prior == "atomic" else self.n_latents


def step(implementation: str, prior: Prior, size: Size, tokens: Float[Tensor, "n d"]) -> Callable[[], object]:
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


def our_learner(prior: Prior, n_latents: int, n_hidden: int) -> Learner:
    """A learner after annealing, when the mask is fixed."""
    config = AutoencoderConfig(
        hook_point="x", prior=prior, n_latents=n_latents, n_hidden=n_hidden, mixing_density=DENSITY
    )
    autoencoder = config.build(D_MODEL)
    if prior == "composite":
        autoencoder.set_mixing_density(DENSITY)  # type: ignore[operator]
    return Learner(autoencoder, config, TrainingConfig(steps=10**6, alpha_warmup_steps=1), step=9 * 10**5)


def counted_without_running(implementation: str, prior: Prior, size: Size) -> int:
    """Operations of a step, counted from shapes alone."""
    with FakeTensorMode():
        return counted_flops(step(implementation, prior, size, torch.empty(size.n_tokens, D_MODEL)))


class FirstStep(NamedTuple):
    flops: int
    seconds: float


def first_step(implementation: str, prior: Prior, size: Size) -> Callable[[], FirstStep]:
    """Prepare a first step, counted and timed; it allocates the optimizer state. Random tokens suffice for both."""
    run = step(implementation, prior, size, torch.randn(size.n_tokens, D_MODEL))

    def counted() -> FirstStep:
        start = time.perf_counter()
        flops = counted_flops(run)
        return FirstStep(flops, time.perf_counter() - start)

    return counted
