"""A kind of token that was planted along a path is found there; kinds at random places are not."""

import numpy as np
import pytest

from quadric.evidence.patterns.interpolations import (
    ARRANGEMENTS,
    FEWEST_POINTS,
    FURTHER,
    MOST_KINDS,
    clouds,
    interpolation,
    stretches,
)

N_KINDS, PER_KIND = 6, 40


def random_means(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N_KINDS, 3))


def points_about(means: np.ndarray, seed: int, stretched: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Clouds about the means; stretched ones are longest in a random direction, as clouds of tokens are."""
    generator, parts = np.random.default_rng(seed), []
    for mean in means:
        directions = np.linalg.qr(generator.standard_normal((3, 3)))[0] * ([0.5, 0.1, 0.1] if stretched else 0.1)
        parts.append(mean + generator.standard_normal((PER_KIND, 3)) @ directions.T)
    return np.concatenate(parts), np.repeat(np.arange(len(means)), PER_KIND) + 10


def with_planted_middle(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The second kind is spread evenly over the path from the first to the third."""
    means = random_means(seed)
    points, kinds = points_about(means, seed)
    generator = np.random.default_rng(1000 + seed)
    shares = generator.uniform(0, 1, (PER_KIND, 1))
    noise = 0.05 * generator.standard_normal((PER_KIND, 3))
    points[kinds == 11] = means[0] + shares * (means[2] - means[0]) + noise
    return points, kinds


def test_the_stretch_by_hand() -> None:
    """Path of length 4; the middle is 1 off it, with variance 1 along and 0.5 across on each of two axes."""
    means = np.array([[0.0, 0, 0], [4, 0, 0], [2, 1, 0], [0.2, 0, 0]])
    covariances = np.stack([0.01 * np.eye(3), 0.01 * np.eye(3), np.diag([1, 0.5, 0.5]), np.diag([1, 0.5, 0.5])])
    triples = np.array([[0, 2, 1], [0, 3, 1]])
    found = stretches(means[None], covariances, triples)
    assert found[0, 0] == pytest.approx(np.sqrt(1 / 1.5))
    assert found[0, 1] == 0  # at the end of the path
    assert (stretches(4 * means[None], covariances, triples) == 0).all()  # the middle does not reach the ends
    assert (stretches(means[None], 100 * covariances, triples) == 0).all()  # the ends are not apart


def test_a_planted_middle_is_named_with_its_ends() -> None:
    found = interpolation(*with_planted_middle(3), np.random.default_rng(0))
    assert found.kinds == (10, 11, 12)
    assert found.stretch > 3
    assert found.p_value < 0.05


def test_a_clear_path_is_compared_with_more_arrangements_than_a_doubtful_one() -> None:
    clear = interpolation(*with_planted_middle(0), np.random.default_rng(0)).p_value
    assert clear < 1 / (1 + ARRANGEMENTS)
    assert clear * (1 + ARRANGEMENTS + FURTHER) == pytest.approx(round(clear * (1 + ARRANGEMENTS + FURTHER)))
    doubtful = interpolation(*with_planted_middle(1), np.random.default_rng(0)).p_value
    assert doubtful > 0.4
    assert doubtful * (1 + ARRANGEMENTS) == pytest.approx(round(doubtful * (1 + ARRANGEMENTS)))


def test_what_is_drawn_after_does_not_depend_on_how_many_arrangements_are() -> None:
    after = []
    for points, kinds in (with_planted_middle(3), points_about(random_means(3), 3)):
        generator = np.random.default_rng(5)
        interpolation(points, kinds, generator)
        after.append(generator.random())
    assert after[0] == after[1]


def test_power() -> None:
    """Six kinds in space, one of them spanning a path: found at p ≤ 0.05 in most draws."""
    p = [interpolation(*with_planted_middle(seed), np.random.default_rng(seed)).p_value for seed in range(40)]
    assert sum(each <= 0.05 for each in p) >= 24


def test_false_positives() -> None:
    """Stretched clouds at random places: p ≤ 0.05 about as often as that."""
    p = [interpolation(*points_about(random_means(seed), seed), np.random.default_rng(seed)).p_value
         for seed in range(150)]  # fmt: skip
    tested = np.array(p)[~np.isnan(p)]
    assert len(tested) > 75
    assert (tested <= 0.05).mean() < 0.1
    assert (tested <= 0.5).mean() > 0.2  # a test that never passes would be no test


def test_kinds_on_a_line_are_no_interpolation() -> None:
    """On a line something always spans the way between others: what a linear latent shows is no news."""
    generator, direction = np.random.default_rng(0), np.array([1.0, 2, 0.5])
    places = np.repeat([0.0, 1, 2, 3, 4.5, 7], PER_KIND) + 0.3 * generator.standard_normal(N_KINDS * PER_KIND)
    points = np.outer(places, direction) + 0.01 * generator.standard_normal((len(places), 3))
    found = interpolation(points, np.repeat(np.arange(N_KINDS), PER_KIND), generator)
    assert found.stretch > 5
    assert found.p_value > 0.05


def test_permuted_labels_leave_nothing_to_test() -> None:
    points, kinds = with_planted_middle(3)
    shuffled = np.random.default_rng(0).permutation(kinds)
    assert np.isnan(interpolation(points, shuffled, np.random.default_rng(0)).p_value)


def test_rare_kinds_and_the_smallest_of_many_are_left_out() -> None:
    kinds = np.concatenate([np.full(FEWEST_POINTS + kind, kind) for kind in range(20)] + [np.full(5, 99)])
    found = clouds(np.random.default_rng(0).standard_normal((len(kinds), 3)), kinds)
    assert found.kinds.tolist() == list(range(19, 19 - MOST_KINDS, -1))
    few = interpolation(np.zeros((10, 3)), np.zeros(10, dtype=np.int64), np.random.default_rng(0))
    assert np.isnan(few.p_value)
    assert few.kinds is None
