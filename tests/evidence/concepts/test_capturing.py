"""Shares of a concept's variance, against the plain definition and against concepts that were planted."""

import pytest
import torch
from torch.testing import assert_close

from quadric.evidence.concepts.capturing import (
    best_random_subspace,
    capture_by_directions,
    capture_by_forms,
    captured_shares,
    concept_variance,
    most_captured,
)
from quadric.geometry import spectrum
from quadric.model import BilinearAutoencoder

D = 12


def vectors(seed: int = 0) -> torch.Tensor:
    return torch.randn(4, 9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_differences_between_prompts_do_not_count_as_concept_variance() -> None:
    plain = vectors()
    shifted = plain + 100 * torch.randn(4, 1, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(concept_variance(plain), concept_variance(shifted))
    assert concept_variance(plain).trace().item() == pytest.approx(1)


def test_words_with_identical_vectors_are_rejected() -> None:
    with pytest.raises(ValueError, match="same vector"):
        concept_variance(torch.ones(2, 3, D, dtype=torch.float64))


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_shares_match_explicit_projection_of_every_word(prior: str) -> None:
    options = {"mixing_density": 0.1} if prior == "composite" else {}
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior=prior, seed=3, **options)
    words = vectors()
    centred = (words - words.mean(1, keepdim=True)).flatten(0, 1)
    shares, ranks = captured_shares(autoencoder, [concept_variance(words)])
    for latent in range(10):
        values, directions = spectrum(autoencoder, latent)
        rank = min(8, round((values.abs().sum() ** 2 / values.square().sum()).item()))
        inside = centred @ directions[:, :rank]
        assert ranks[latent] == rank
        assert shares[0, latent].item() == pytest.approx((inside.square().sum() / centred.square().sum()).item())


def test_a_latent_that_spans_the_concept_is_found_and_beats_chance() -> None:
    """Words on a circle, and one latent that projects onto its plane."""
    generator = torch.Generator().manual_seed(5)
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior="quadratic", n_hidden=20, seed=3)
    plane = torch.linalg.qr(torch.randn(D, 2, generator=generator)).Q
    with torch.no_grad():
        autoencoder.left[:2] = autoencoder.right[:2] = plane.mT
        autoencoder.mixing.weight[7] = 0
        autoencoder.mixing.weight[7, :2] = 1
    angles = torch.arange(7) * 2 * torch.pi / 7
    circle = (torch.stack([angles.cos(), angles.sin()], dim=1) @ plane.mT).double()
    noisy = circle + 0.01 * torch.randn(3, 7, D, dtype=torch.float64, generator=generator)
    shares, ranks = captured_shares(autoencoder, [concept_variance(noisy)])
    assert ranks[7] == 2
    assert shares[0, 7].item() > 0.99
    assert shares[0, 7].item() == pytest.approx(most_captured(concept_variance(noisy), 2), abs=0.01)
    assert best_random_subspace(concept_variance(noisy), 2, 10, seed=0) < 0.9


def test_captured_shares_stay_within_their_bounds() -> None:
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior="composite", mixing_density=0.1, seed=3)
    variances = [concept_variance(vectors(seed)) for seed in range(3)]
    for each in capture_by_forms(autoencoder, variances):
        assert 0 < each.median <= each.captured <= each.most + 1e-9
        assert 0 < each.random_subspace <= each.most + 1e-9
        assert each.untrained > 0


def test_the_leading_principal_component_is_the_best_direction() -> None:
    variance = concept_variance(vectors())
    leading = torch.linalg.eigh(variance).eigenvectors[:, -1]
    directions = torch.stack([torch.eye(D, dtype=torch.float64)[0], -3 * leading])
    (found,) = capture_by_directions(directions, [variance])
    assert found.latent == 1
    assert found.captured == pytest.approx(found.most)


def test_random_subspaces_of_an_isotropic_concept_capture_rank_over_d() -> None:
    isotropic = torch.eye(D, dtype=torch.float64) / D
    assert best_random_subspace(isotropic, 3, 500, seed=0) == pytest.approx(3 / D)
