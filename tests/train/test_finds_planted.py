"""Training finds the planted manifolds, and an untrained dictionary does not contain them."""

import pytest
import torch

import quadric
from benchmarks.planted import PlantedConfig, PlantedStream, plant
from quadric.model import Composite, paper_loss
from quadric.train import Learner, Training, train

STEPS, TOKENS = 400, 1024


def best_inside(dictionary, manifolds) -> dict[str, float]:
    """For each manifold, the largest share of a latent's energy inside its subspace: max over i of ‖BᵀW_iB‖²/‖W_i‖²."""
    forms = torch.stack([dictionary.form(latent) for latent in range(dictionary.n_latents)])
    energy = forms.square().sum((1, 2))
    return {
        each.name: ((each.basis.mT @ forms @ each.basis).square().sum((1, 2)) / energy).max().item()
        for each in manifolds
    }


@pytest.mark.slow
def test_circles_and_spheres_are_found_each_in_one_latent(tmp_path):
    planted = PlantedConfig()
    manifolds = plant(planted, seed=0)
    training, settings = Training(steps=STEPS), Composite(n_latents=64, atoms_per_latent=3.84, lens="paper")
    learner = Learner(settings.build(planted.d_model), paper_loss(), training, hook_point="planted")
    chance = best_inside(learner.dictionary, manifolds)
    train([learner], PlantedStream(manifolds, planted, TOKENS, seed=0), training, tmp_path)
    found = best_inside(learner.dictionary, manifolds)
    held_out = PlantedStream(manifolds, planted, 4 * TOKENS, seed=1).tokens(0)
    assert learner.dictionary.eval().error(held_out).mean().item() < 0.35
    for name in found:
        assert chance[name] < 0.15
        if name.startswith(("circle", "sphere")):
            assert found[name] > 0.75


@pytest.mark.slow
def test_a_small_dictionary_finds_ten_circles_with_defaults():
    """Three of ten circles add up to each token; the two strongest axes of some latent lie in the plane of each."""
    generator = torch.Generator().manual_seed(0)
    planes = torch.linalg.qr(torch.randn(10, 64, 2, generator=generator)).Q
    angles = 2 * torch.pi * torch.rand(20_000, 10, generator=generator)
    chosen = torch.rand(20_000, 10, generator=generator).argsort(1) < 3
    points = torch.stack([angles.cos(), angles.sin()], dim=-1) * chosen[..., None]
    x = torch.einsum("ncp,cdp->nd", points, planes) + 0.05 * torch.randn(20_000, 64, generator=generator)

    ae = quadric.fit(x, 32, progress=False)
    values, vectors = torch.linalg.eigh(torch.stack([ae.form(i)[:-1, :-1].detach() for i in range(32)]))
    strongest = values.abs().topk(2, dim=1).indices
    bases = vectors.gather(2, strongest[:, None].expand(-1, 64, -1))
    overlaps = torch.einsum("cdp,kdq->ckpq", planes, bases).square().sum((-1, -2)) / 2
    assert overlaps.amax(1).mean() > 0.9
