"""Rays are elongated, clusters are not, and chance is judged against a latent's own controls."""

import numpy as np
import pytest

from quadric.evidence.patterns.chance import corrected, p_values
from quadric.evidence.patterns.cones import excess, leading_ray, with_heavy_tails

GENERATOR = np.random.default_rng
DIRECTION = np.array([2.0, -1.0, 2.0]) / 3


def ray(seed: int, width: float = 0.1, n: int = 200) -> np.ndarray:
    """A cone: lengths from 0.2 to 1, width in proportion to the length."""
    generator = GENERATOR(seed)
    lengths = generator.uniform(0.2, 1, (n, 1))
    return np.asarray(lengths * (DIRECTION + width * generator.standard_normal((n, 3))))


def cluster(seed: int, spread: float = 0.1, n: int = 200) -> np.ndarray:
    return np.asarray(DIRECTION + spread * GENERATOR(seed).standard_normal((n, 3)))


def test_a_ray_is_found_and_elongated() -> None:
    found = leading_ray(ray(0))
    assert found.direction @ DIRECTION > 0.99
    assert found.members.mean() > 0.99
    assert found.elongation > 2


def test_a_round_cluster_has_elongation_1() -> None:
    """Its largest spread across is slightly above the mean one, so it is a little below 1."""
    values = [leading_ray(cluster(seed)).elongation for seed in range(20)]
    assert 0.85 < np.mean(values) < 1.0


def test_a_cluster_that_is_long_in_another_direction_is_no_cone() -> None:
    sideways = np.cross(DIRECTION, [1.0, 0, 0])
    points = cluster(0) + GENERATOR(1).normal(0, 0.3, (200, 1)) * sideways
    assert leading_ray(points).elongation < 0.5


def test_the_elongation_does_not_depend_on_scale_or_rotation() -> None:
    rotation = np.linalg.qr(GENERATOR(2).standard_normal((3, 3)))[0]
    one, other = leading_ray(ray(3)), leading_ray(7 * ray(3) @ rotation)
    assert other.elongation == pytest.approx(one.elongation, rel=1e-9)


def test_the_leading_of_two_rays_is_the_one_with_more_points() -> None:
    other = np.array([-1.0, 2.0, 2.0]) / 3  # at a right angle
    points = np.vstack([ray(0, width=0.05), ray(1, width=0.05, n=100) @ np.outer(DIRECTION, other)])
    found = leading_ray(points)
    assert found.direction @ DIRECTION > 0.99
    assert found.members.sum() == 200


@pytest.mark.parametrize("points", [np.empty((0, 3)), np.zeros((50, 3)), np.ones((10, 3))])
def test_too_few_points_have_no_elongation(points: np.ndarray) -> None:
    assert np.isnan(leading_ray(points).elongation)


def test_excess_by_hand() -> None:
    found = excess(np.exp([3.0]), np.exp([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(found.own, [1.0])
    np.testing.assert_allclose(found.by_chance, [-1.5, 0, 1.5])


def test_power_and_false_positives() -> None:
    """Of 40 rays and 160 clusters beside 4 control clusters each, at a rate of 5 %: all rays, at most 4 clusters."""
    own = [leading_ray(ray(seed) if seed < 40 else cluster(seed)).elongation for seed in range(200)]
    controls = [[leading_ray(cluster(1000 * (seed + 1) + each)).elongation for each in range(4)] for seed in range(200)]
    compared = excess(np.array(own), np.array(controls))
    found = corrected(p_values(compared.own, compared.by_chance)) <= 0.05
    assert found[:40].all()
    assert found[40:].sum() <= 4


def test_heavy_tails_lengthen_tokens_and_keep_their_directions() -> None:
    tokens = np.random.default_rng(0).standard_normal((20_000, 3)).astype(np.float32)
    heavy = with_heavy_tails(tokens, 4, np.random.default_rng(1))
    assert heavy.dtype == np.float32
    lengths = np.linalg.norm(heavy, axis=1) / np.linalg.norm(tokens, axis=1)
    np.testing.assert_allclose(heavy, tokens * lengths[:, None], rtol=1e-5)
    assert np.var(heavy) == pytest.approx(2, rel=0.1)  # degrees / (degrees − 2)
