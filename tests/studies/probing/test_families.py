"""Features: the parts of a latent add up to it, and what is fitted sees training rows only."""

import pytest
import torch

from quadric import BatchTopKAutoencoder, BilinearAutoencoder, TopKAutoencoder
from quadric.geometry.centring import centring_of
from quadric.geometry.quadrics import latent_frame
from quadric.model.lens import affine_lens, token_moments
from quadric.model.objective import unit_tokens
from quadric.studies.probing.families import families_of, linear_parts, principal_scores, quadratic_parts, random_like

D = 12


def tokens(n: int = 40, seed: int = 0) -> torch.Tensor:
    return unit_tokens(torch.randn(n, D, generator=torch.Generator().manual_seed(seed)) + 0.7)


def dictionary(lens: str) -> BilinearAutoencoder:
    own = affine_lens(token_moments(tokens(200, 9))) if lens == "affine" else None
    return BilinearAutoencoder(d_model=D, n_latents=6, n_hidden=10, prior="composite", mixing_density=0.4, lens=own)


def test_the_parts_of_an_affine_latent_add_up_to_it() -> None:
    ae, u = dictionary("affine"), tokens().double()
    centring = centring_of(ae)
    constants = torch.tensor([latent_frame(ae, i).constant for i in range(6)])
    total = quadratic_parts(ae, centring, u) + linear_parts(ae, centring, u) + constants
    torch.testing.assert_close(total, ae.encode(u), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lens", ["affine", "paper"])
def test_the_parts_are_those_of_the_matrix_about_the_centre(lens: str) -> None:
    ae, u = dictionary(lens), tokens().double()
    centring = centring_of(ae, u.mean(0))
    v = centring.coordinates(u)
    for latent in range(6):
        whole = ae.form(latent).detach().double()
        if lens == "affine":
            curved, slope = whole[:-1, :-1], 2 * whole[:-1, -1]
        else:
            m = u.mean(0) / u.mean(0).norm()
            outside = torch.eye(D, dtype=torch.float64) - m.outer(m)
            curved, slope = outside @ whole @ outside, 2 * outside @ whole @ m
        quadratic, linear = ((v @ curved) * v).sum(1), centring.scale * (v @ slope)
        torch.testing.assert_close(quadratic_parts(ae, centring, u)[:, latent], quadratic, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(linear_parts(ae, centring, u)[:, latent], linear, atol=1e-6, rtol=1e-5)


def test_every_family_gives_one_row_per_token_and_dictionaries_read_unit_tokens() -> None:
    given = {"ours": dictionary("affine"), "topk": TopKAutoencoder(d_model=D, n_latents=8, n_active=2)}
    u, is_train = tokens(), torch.arange(40) < 30
    found = {family.label: family.features(u, is_train) for family in families_of(given)}
    assert list(found) == [
        *("ours: latents", "ours: linear part", "ours: quadratic part", "ours: random", "topk: latents"),
        *("topk: random", "raw", "pca", "degree 2"),
    ]
    assert all(len(features) == 40 for features in found.values())
    torch.testing.assert_close(found["ours: latents"], given["ours"].encode(given["ours"].prepare(17 * u)))
    assert (found["topk: latents"] != 0).sum(1).max() <= 2
    assert found["degree 2"].shape[1] == D + D * (D + 1) // 2


@pytest.mark.parametrize("label", ["pca", "degree 2", "raw dictionary: linear part"])
def test_what_is_fitted_ignores_test_rows(label: str) -> None:
    family = next(each for each in families_of({"raw dictionary": dictionary("paper")}) if each.label == label)
    assert family.is_fitted
    u, is_train = tokens(), torch.arange(40) < 30
    changed = torch.cat([u[:30], tokens(10, 5)])
    torch.testing.assert_close(family.features(u, is_train)[:30], family.features(changed, is_train)[:30])


def test_components_without_variance_are_left_out() -> None:
    flat = torch.cat([torch.randn(30, 3), 1e-6 * torch.randn(30, 5)], dim=1)
    assert principal_scores(flat, torch.ones(30, dtype=torch.bool), 8).shape == (30, 3)


def test_random_dictionaries_keep_size_and_centre_and_lose_the_weights() -> None:
    ours = dictionary("affine")
    chance = random_like(ours, 3)
    assert isinstance(chance, BilinearAutoencoder)
    assert chance.settings.n_latents == 6
    assert torch.equal(chance.lens.centre, ours.lens.centre)
    assert not torch.equal(chance.left, ours.left)
    sparse = BatchTopKAutoencoder(d_model=D, n_latents=8, n_active=2)
    with torch.no_grad():
        sparse.decoder_bias += 1
    linear = random_like(sparse, 3)
    assert isinstance(linear, TopKAutoencoder)
    assert torch.equal(linear.decoder_bias, sparse.decoder_bias)
    assert (linear.encode(tokens()) != 0).sum(1).max() <= 2
