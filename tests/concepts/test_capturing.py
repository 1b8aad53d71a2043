"""Shares of a concept's variance, against the plain definition and against concepts that were planted."""

import pytest
import torch
from torch.testing import assert_close

from quadric.autoencoders import BilinearAutoencoder
from quadric.concepts.capturing import (
    best_random_subspace,
    capture_by_directions,
    capture_by_forms,
    captured_shares,
    concept_variance,
    most_captured,
)
from quadric.geometry import spectrum

D = 12


def vectors(seed: int = 0) -> torch.Tensor:
    return torch.randn(4, 9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_what_the_beginning_of_a_sentence_adds_is_no_variance_of_the_concept() -> None:
    plain = vectors()
    shifted = plain + 100 * torch.randn(4, 1, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(concept_variance(plain), concept_variance(shifted))
    assert concept_variance(plain).trace().item() == pytest.approx(1)


def test_words_that_are_all_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="same vector"):
        concept_variance(torch.ones(2, 3, D, dtype=torch.float64))


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_shares_are_those_of_projecting_every_word(prior: str) -> None:
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


def test_a_latent_made_of_the_concept_is_found_and_beats_all_chance() -> None:
    """Words on a circle, and one latent that is its projector."""
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


def test_nothing_captures_more_than_the_most_and_chance_is_positive() -> None:
    autoencoder = BilinearAutoencoder(d_model=D, n_latents=10, prior="composite", mixing_density=0.1, seed=3)
    variances = [concept_variance(vectors(seed)) for seed in range(3)]
    for each in capture_by_forms(autoencoder, variances):
        assert 0 < each.median <= each.captured <= each.most + 1e-9
        assert 0 < each.random_subspace <= each.most + 1e-9
        assert each.untrained > 0


def test_the_best_direction_is_the_leading_principal_component_if_it_is_there() -> None:
    variance = concept_variance(vectors())
    leading = torch.linalg.eigh(variance).eigenvectors[:, -1]
    directions = torch.stack([torch.eye(D, dtype=torch.float64)[0], -3 * leading])
    (found,) = capture_by_directions(directions, [variance])
    assert found.latent == 1
    assert found.captured == pytest.approx(found.most)


def test_random_subspaces_hold_their_share_of_dimensions_on_average() -> None:
    isotropic = torch.eye(D, dtype=torch.float64) / D
    assert best_random_subspace(isotropic, 3, 500, seed=0) == pytest.approx(3 / D)
