"""Training steps, as printed and ours; light to import, since every measurement of memory starts a new process."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from printed import PrintedAutoencoder, PrintedLearner
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from quadric.autoencoders.mixing import Prior
from quadric.training import AutoencoderConfig, Learner, TrainingConfig
from quadric.training.counting import counted_flops

DENSITY, D_MODEL = 0.001, 576
WAYS = ("printed", "printed, float32", "ours")


class Size(NamedTuple):
    n_tokens: int
    n_latents: int
    n_hidden: int

    def latents(self, prior: Prior) -> int:
        """Atomic latents are atoms: the same number of atoms for every prior."""
        return self.n_hidden if prior == "atomic" else self.n_latents


def step(way: str, prior: Prior, size: Size, tokens: Float[Tensor, "n d"]) -> Callable[[], object]:
    """One training step on these tokens, ready to run."""
    latents = size.latents(prior)
    if way != "ours":
        printed = PrintedAutoencoder(D_MODEL, latents, size.n_hidden, prior)
        if prior == "composite":
            printed.set_mixing_density(DENSITY)
        learner = PrintedLearner(printed, "bfloat16" if way == "printed" else "float32")
        return lambda: learner.step(tokens)
    ours = our_learner(prior, latents, size.n_hidden)
    return lambda: ours.step(tokens)


def our_learner(prior: Prior, n_latents: int, n_hidden: int) -> Learner:
    """A learner past the end of annealing, where the mask is fixed."""
    config = AutoencoderConfig(
        hook_point="x", prior=prior, n_latents=n_latents, n_hidden=n_hidden, mixing_density=DENSITY
    )
    autoencoder = config.build(D_MODEL)
    if prior == "composite":
        autoencoder.set_mixing_density(DENSITY)  # type: ignore[operator]
    return Learner(autoencoder, config, TrainingConfig(steps=10**6, alpha_warmup_steps=1), step=9 * 10**5)


def counted_without_running(way: str, prior: Prior, size: Size) -> int:
    """Operations of a step, by shapes alone."""
    with FakeTensorMode():
        return counted_flops(step(way, prior, size, torch.empty(size.n_tokens, D_MODEL)))


class FirstStep(NamedTuple):
    flops: int
    seconds: float


def first_step(way: str, prior: Prior, size: Size) -> Callable[[], FirstStep]:
    """A first step, counted and timed; it makes the optimizers' memory. Random tokens: neither asks which they are."""
    run = step(way, prior, size, torch.randn(size.n_tokens, D_MODEL))

    def counted() -> FirstStep:
        start = time.perf_counter()
        flops = counted_flops(run)
        return FirstStep(flops, time.perf_counter() - start)

    return counted
