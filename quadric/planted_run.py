"""The whole of Quadric on activations whose manifolds are known, in ten seconds."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from quadric.activations.planted import PlantedConfig, PlantedStream, Recovery, plant, recover
from quadric.autoencoders import BilinearAutoencoder, Provenance
from quadric.training import AutoencoderConfig, Learner, StepReport, TrainingConfig, train

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
    planted = PlantedConfig()
    manifolds = plant(planted, seed)
    training = TrainingConfig(steps=steps, alpha_warmup_steps=steps // 8)
    config = AutoencoderConfig(
        hook_point=PlantedStream.hook_point, n_latents=64, n_hidden=128, mixing_density=0.03, seed=seed
    )
    autoencoder = config.build(planted.d_model)
    assert isinstance(autoencoder, BilinearAutoencoder)
    autoencoder.provenance = Provenance(hook_point=PlantedStream.hook_point, corpus=f"planted manifolds, seed {seed}")
    chance = recover(_forms(autoencoder), manifolds)
    stream = PlantedStream(manifolds, planted, TOKENS_A_STEP, seed)
    learner = Learner(autoencoder, config, training)
    with TemporaryDirectory() as checkpoints:  # ten seconds of work are not worth resuming
        train([learner], stream, training, Path(checkpoints), lambda step, reports: on_step(reports[config.name]))
    held_out = PlantedStream(manifolds, planted, 4 * TOKENS_A_STEP, seed + 1).tokens(0)
    error = autoencoder.eval().error(held_out).mean().item()
    return PlantedRun(autoencoder, error, recover(_forms(autoencoder), manifolds), chance)


def _forms(autoencoder: BilinearAutoencoder) -> torch.Tensor:
    return torch.stack([autoencoder.form(latent) for latent in range(autoencoder.n_latents)])
