"""Baselines do what they are called."""

import pytest
import torch

import quadric
from quadric.studies.steering.methods import (
    added,
    baselines,
    best_topk_latent,
    clamped,
    firing,
    mean_difference,
    project_along,
    random_rotation,
    rotated,
)
from tests.studies.steering.conftest import Steerable


def test_a_direction_is_added_in_units_of_the_norm() -> None:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    direction = torch.arange(8.0).double()
    moved = added("any", direction).at(0.5)(x)
    expected = x + 0.5 * x.norm(dim=1, keepdim=True) * (direction / direction.norm()).float()
    torch.testing.assert_close(moved, expected)
    torch.testing.assert_close(added("any", direction).at(0.0)(x), x)


def test_a_clamped_latent_adds_what_is_missing(steerable: Steerable) -> None:
    topk, x = steerable.topk, 30 * steerable.acts.vectors[:50]
    moved = clamped(topk, 3).at(0.7)(x)
    change = (moved - x) / x.norm(dim=1, keepdim=True)
    values = topk.encode(x / x.norm(dim=1, keepdim=True))[:, 3]
    torch.testing.assert_close(change, (0.7 - values)[:, None] * topk.decoder[3], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("input", ["unit", "own", "constant_norm", "layer_norm"])
def test_a_clamped_latent_reaches_the_dose_whatever_its_encoder_reads(input) -> None:
    """Of a dictionary with one latent, whose encoder reads back what its decoder writes."""
    generator = torch.Generator().manual_seed(2)
    direction = torch.nn.functional.normalize(torch.randn(1, 12, generator=generator), dim=-1)
    direction = torch.nn.functional.normalize(direction - direction.mean(), dim=-1)
    topk = quadric.linear_dictionary(encoder=direction, decoder=direction, encoder_bias=torch.ones(1), input=input)
    x = torch.linspace(5, 60, 40)[:, None] * torch.randn(40, 12, generator=generator)
    change = (clamped(topk, 0).at(0.7)(x) - x) / x.norm(dim=1, keepdim=True)
    empty, one = (topk.vectors_of(topk.prepare(x), z) for z in (torch.zeros(40, 1), topk.encode(topk.prepare(x))))
    held = (one - empty).norm(dim=1) / topk.lengths_of(topk.prepare(x))[:, 0]
    torch.testing.assert_close(change, (0.7 - held)[:, None] * direction, atol=1e-5, rtol=1e-4)


def test_the_best_linear_latent_is_the_most_correlated(steerable: Steerable) -> None:
    x = steerable.acts.vectors[:300]
    fires = torch.arange(len(x)) % 7 == 0
    values = steerable.topk.encode(x / x.norm(dim=1, keepdim=True)).detach().double()
    both = torch.cat([fires.double()[None], values.mT + 1e-30 * torch.randn(values.mT.shape).double()])
    correlations = torch.nan_to_num(torch.corrcoef(both)[0, 1:], nan=-1)
    assert best_topk_latent(steerable.topk, x, fires) == int(correlations.argmax())


def test_the_difference_of_means() -> None:
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    fires = torch.arange(30) < 9
    unit = x.double() / x.double().norm(dim=1, keepdim=True)
    torch.testing.assert_close(mean_difference(x, fires), unit[:9].mean(0) - unit[9:].mean(0))


def test_a_random_quadric_has_the_same_spectrum_about_the_same_centre(steerable: Steerable) -> None:
    latent, x = steerable.ae.latent(3), steerable.acts.vectors[:40]
    axes = rotated(latent.axes, torch.Generator().manual_seed(0))
    assert torch.equal(axes.eigenvalues, latent.axes.eigenvalues)
    torch.testing.assert_close(axes.basis.mT @ axes.basis, torch.eye(axes.basis.shape[1]).double())
    assert float((axes.basis.mT @ latent.axes.basis).abs().max()) < 0.99
    to = float(axes.place(x.double() / x.double().norm(dim=1, keepdim=True)).value.median())
    moved = project_along(latent.autoencoder, axes, to)(x.double())
    value = axes.place(moved / x.double().norm(dim=1, keepdim=True)).value
    torch.testing.assert_close(value, torch.full_like(value, to), atol=1e-8, rtol=1e-6)


def test_about_a_centre_the_rotation_leaves_the_mean_alone() -> None:
    """For a raw dictionary about a centre m, v has no part along m, and neither have the turned axes."""
    ae = quadric.BilinearAutoencoder(d_model=8, n_latents=6, prior="atomic")
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(0)).double() + 2
    unit = x / x.norm(dim=1, keepdim=True)
    axes = rotated(ae.latent(3, centre=unit.mean(0)).axes, torch.Generator().manual_seed(0))
    assert float((unit.mean(0) @ axes.basis).abs().max()) < 1e-6
    to = float(axes.place(unit).value.median())
    moved = project_along(ae, axes, to)(x) / x.norm(dim=1, keepdim=True)
    reached = axes.place(moved).value
    torch.testing.assert_close(reached, torch.full_like(reached, to), atol=1e-8, rtol=1e-6)
    identity = torch.eye(8).double()
    for fixed in (None, unit.mean(0)):
        rotation = random_rotation(8, fixed, torch.Generator().manual_seed(1))
        torch.testing.assert_close(rotation @ rotation.mT, identity)


def test_the_leading_eigenvector_points_to_where_the_latent_fires(steerable: Steerable) -> None:
    latent, x = steerable.ae.latent(3), steerable.acts.vectors
    rest = float(latent.value(x).median())
    fires = firing(latent, x, rest, 1e9, rest + 1)
    assert int(fires.sum()) == 20  # a threshold that nothing reaches: the strongest few
    methods = baselines(latent, x, fires, rest + 1, 0, steerable.topk)
    assert [each.name for each in methods] == [
        "leading eigenvector", "difference of means", "TopK latent", "random direction", "random quadric"
    ]  # fmt: skip
    moved = methods[0].at(1.0)(x[:5].double()) - x[:5].double()
    assert bool((moved @ mean_difference(x, fires) > 0).all())
    again = baselines(latent, x, fires, rest + 1, 0)[2].at(0.5)(x[:5])
    torch.testing.assert_close(again, methods[3].at(0.5)(x[:5]))  # the same seed, the same random direction
