"""Training finds the planted manifolds, and an untrained autoencoder does not contain them."""

import pytest
import torch

from benchmarks.planted import PlantedConfig, PlantedStream, plant
from quadric.train import AutoencoderConfig, Learner, TrainingConfig, train

STEPS, TOKENS = 400, 1024


def best_inside(autoencoder, manifolds) -> dict[str, float]:
    """For each manifold, the largest share of a latent's energy inside its subspace: max over i of ‖BᵀW_iB‖²/‖W_i‖²."""
    forms = torch.stack([autoencoder.form(latent) for latent in range(autoencoder.n_latents)])
    energy = forms.square().sum((1, 2))
    return {
        each.name: ((each.basis.mT @ forms @ each.basis).square().sum((1, 2)) / energy).max().item()
        for each in manifolds
    }


@pytest.mark.slow
def test_circles_and_spheres_are_found_each_in_one_latent(tmp_path):
    planted = PlantedConfig()
    manifolds = plant(planted, seed=0)
    training = TrainingConfig(steps=STEPS, alpha_warmup_steps=STEPS // 8)
    config = AutoencoderConfig(hook_point="planted", n_latents=64, n_hidden=128, mixing_density=0.03)
    learner = Learner(config.build(planted.d_model), config, training)
    chance = best_inside(learner.autoencoder, manifolds)
    train([learner], PlantedStream(manifolds, planted, TOKENS, seed=0), training, tmp_path)
    found = best_inside(learner.autoencoder, manifolds)
    held_out = PlantedStream(manifolds, planted, 4 * TOKENS, seed=1).tokens(0)
    assert learner.autoencoder.eval().error(held_out).mean().item() < 0.35
    for name in found:
        assert chance[name] < 0.15
        if name.startswith(("circle", "sphere")):
            assert found[name] > 0.75
