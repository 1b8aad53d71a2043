"""Planted tokens have the documented geometry."""

import pytest
import torch
from torch.testing import assert_close

from benchmarks.planted import (
    CONE_SLOPE,
    JITTER,
    PlantedConfig,
    PlantedStream,
    on_sphere,
    plant,
    planted_centres,
)
from quadric.model import TopKAutoencoder

CONFIG = PlantedConfig(noise=0.0)


def test_manifolds_are_unit_spheres_in_their_subspaces():
    manifolds = plant(CONFIG, seed=0)
    assert [m.basis.shape[1] for m in manifolds] == [1] * 6 + [2] * 4 + [3] * 2
    alone = PlantedConfig(noise=0.0, n_active=1)
    for manifold in manifolds:
        assert_close(manifold.basis.mT @ manifold.basis, torch.eye(manifold.basis.shape[1]))
        tokens = PlantedStream([manifold], alone, 50, seed=1).tokens(0)
        assert_close(tokens.norm(dim=-1), torch.ones(50))
        assert_close(tokens @ manifold.basis @ manifold.basis.mT, tokens)


def test_every_token_is_a_sum_over_the_given_number_of_manifolds():
    manifolds = plant(CONFIG, seed=0)
    tokens = PlantedStream(manifolds, CONFIG, 500, seed=1).tokens(0)
    stacked = torch.cat([m.basis for m in manifolds], dim=1)
    assert stacked.shape[1] < CONFIG.d_model, "the coordinates below are unique"
    coordinates = torch.linalg.lstsq(stacked, tokens.mT).solution
    sizes = [m.basis.shape[1] for m in manifolds]
    radii = torch.stack([part.norm(dim=0) for part in coordinates.split(sizes)])
    assert_close((radii > 1e-4).sum(0), torch.full((500,), 2))
    assert_close(radii[radii > 1e-4], torch.ones(1000), atol=1e-3, rtol=0)


def test_the_stream_is_seeded_and_never_repeats():
    manifolds = plant(CONFIG, seed=0)
    stream, again = (PlantedStream(manifolds, CONFIG, 10, seed=3) for _ in range(2))
    batches = [batch.activations["planted"] for batch, _ in zip(stream, range(3), strict=False)]
    assert not torch.equal(batches[0], batches[1])
    again.load_state_dict({"next": 2})
    assert torch.equal(next(iter(again)).activations["planted"], batches[2])
    assert not torch.equal(PlantedStream(manifolds, CONFIG, 10, seed=4).tokens(0), batches[0])


def test_more_active_than_planted_is_refused():
    with pytest.raises(ValueError, match="n_active=20 exceeds the 12 manifolds"):
        PlantedStream(plant(CONFIG, 0), PlantedConfig(n_active=20), 5, seed=0)


def test_cones_and_clusters_have_their_shapes():
    config = PlantedConfig(n_directions=0, n_circles=0, n_spheres=0, n_cones=1, n_clusters=1, n_active=1, noise=0.0)
    cone, cluster = plant(config, seed=0)
    assert (cone.kind, cluster.kind) == ("cone", "cluster")
    on_cone = PlantedStream([cone], config, 200, seed=1).tokens(0) @ cone.basis
    radius, height = on_cone[:, :2].norm(dim=-1), on_cone[:, 2]
    assert_close(radius, CONE_SLOPE * height)
    assert 0.5 <= height.min() < 0.6
    assert 1.4 < height.max() <= 1.5
    in_clusters = PlantedStream([cluster], config, 500, seed=1).tokens(0) @ cluster.basis
    distances = torch.cdist(in_clusters, cluster.centres)
    assert distances.argmin(1).unique().tolist() == [0, 1, 2, 3, 4]
    assert distances.amin(1).square().mean().item() <= 3 * JITTER**2 * 1.1


def test_an_untrained_autoencoder_of_the_same_seed_does_not_contain_the_manifolds():
    manifolds = plant(CONFIG, seed=7)
    directions = TopKAutoencoder(d_model=32, n_latents=24, n_active=4, seed=7).decoder
    largest = max((directions @ manifold.basis).norm(dim=-1).max().item() for manifold in manifolds)
    assert largest < 0.9


def test_a_draw_at_the_origin_is_still_a_point_of_the_manifold():
    points = torch.tensor([[0.0], [-0.5], [2.0]])
    assert on_sphere(points).tolist() == [[1.0], [-1.0], [1.0]]
    assert on_sphere(torch.zeros(1, 3)).norm().item() == 1.0


def test_shifted_circles_and_spheres_lie_about_their_own_centre():
    config = PlantedConfig(
        n_directions=0, n_circles=0, n_spheres=0, n_shifted_circles=2, n_shifted_spheres=2, n_active=1, noise=0.0
    )
    for manifold in plant(config, seed=0):
        tokens = PlantedStream([manifold], config, 50, seed=1).tokens(0)
        assert_close((tokens - manifold.shift).norm(dim=-1), torch.ones(50))
        assert manifold.shift.norm().item() == pytest.approx(config.shift)
        inside = (manifold.basis.mT @ manifold.shift).norm().item()
        assert inside == pytest.approx(config.shift if manifold.name.endswith("0") else 0.0, abs=1e-6)
    assert [each.kind for each in plant(config, 0)] == ["shifted circle"] * 2 + ["shifted sphere"] * 2


def test_a_paraboloid_opens_along_its_axis_alone():
    config = PlantedConfig(n_directions=0, n_circles=0, n_spheres=0, n_paraboloids=1, n_active=1, noise=0.0)
    (paraboloid,) = plant(config, seed=0)
    points = PlantedStream([paraboloid], config, 2000, seed=1).tokens(0) @ paraboloid.basis
    assert_close(points[:, 2], 2 * points[:, :2].square().sum(1) - 1)
    assert abs(points[:, 2].mean().item()) < 0.05
    assert_close(paraboloid.curved, paraboloid.basis[:, :2])


def test_kinds_that_are_not_planted_do_not_change_the_draw_of_the_others():
    more = PlantedConfig(n_shifted_circles=2, n_shifted_spheres=1, n_paraboloids=1)
    for one, other in zip(plant(CONFIG, seed=3), plant(more, seed=3), strict=False):
        assert torch.equal(one.basis, other.basis)


def test_an_offset_is_common_to_all_tokens_and_moves_nothing_else():
    manifolds = plant(CONFIG, seed=0)
    offset = PlantedConfig(noise=0.0, offset=2.0)
    plain = PlantedStream(manifolds, CONFIG, 20, seed=1).tokens(0)
    moved = PlantedStream(manifolds, offset, 20, seed=1).tokens(0)
    assert_close(moved - plain, offset.common.expand(20, -1), atol=1e-5, rtol=0)
    assert offset.common.norm().item() == pytest.approx(2.0)


def test_centres_are_those_of_spheres_fitted_to_the_unit_tokens_of_one_manifold():
    config = PlantedConfig(
        n_directions=0, n_circles=1, n_spheres=0, n_shifted_circles=2, n_shifted_spheres=2, n_active=1, noise=0.0,
        offset=30.0,
    )  # fmt: skip
    for manifold in plant(config, seed=0):
        stream = PlantedStream([manifold], config, 4000, seed=1)
        (found,) = planted_centres([manifold], stream.mixture(0))
        tokens = stream.tokens(0)
        unit = tokens / tokens.norm(dim=-1, keepdim=True)
        inside = (unit @ manifold.basis).double()
        # |y|² = 2c·y + (r² − |c|²) on a sphere, so a least-squares fit finds c; a large offset keeps unit tokens round
        design = torch.cat([2 * inside, torch.ones(len(inside), 1)], dim=1)
        fitted = torch.linalg.lstsq(design, inside.square().sum(1, keepdim=True)).solution[:, 0]
        centre = fitted[:-1]
        assert_close(found.centre.double(), centre, atol=0.05 * found.radius, rtol=0)
        radius = (fitted[-1] + centre.square().sum()).sqrt().item()
        assert found.radius == pytest.approx(radius, rel=0.1)  # scaling to unit norm shortens what is along the offset
