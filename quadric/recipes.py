"""Whole runs as functions: the demo's and, as they come, the paper's."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from quadric.activations.planted import PlantedConfig, Recovery, plant, planted_batches, recover
from quadric.autoencoders import BilinearAutoencoder
from quadric.training.loop import StepReport, TrainingConfig, train

TOKENS_A_STEP = 1024


class PlantedRun(NamedTuple):
    """What the demo trained and found."""

    autoencoder: BilinearAutoencoder
    error: float
    """On tokens that were not trained on."""
    found: list[Recovery]
    chance: list[Recovery]
    """The same search among the latents of the untrained autoencoder."""


def planted_demo(steps: int, seed: int, on_step: Callable[[StepReport], None]) -> PlantedRun:
    """A composite autoencoder on planted directions, circles and spheres."""
    config = PlantedConfig()
    manifolds = plant(config, seed)
    autoencoder = BilinearAutoencoder(
        d_model=config.d_model, n_latents=64, n_hidden=128, prior="composite", mixing_density=1.0, seed=seed
    )
    chance = recover(_forms(autoencoder), manifolds)
    training = TrainingConfig(steps=steps, alpha=0.3, alpha_warmup_steps=steps // 8, mixing_density=0.03)
    train(autoencoder, planted_batches(manifolds, config, TOKENS_A_STEP, seed), training, on_step)
    held_out = next(planted_batches(manifolds, config, 4 * TOKENS_A_STEP, seed + 1))
    with torch.no_grad():
        error = autoencoder.loss(held_out).error.item()
    return PlantedRun(autoencoder, error, recover(_forms(autoencoder), manifolds), chance)


def _forms(autoencoder: BilinearAutoencoder) -> torch.Tensor:
    return torch.stack([autoencoder.form(latent) for latent in range(autoencoder.n_latents)])
