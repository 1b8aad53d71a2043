"""Planted cones, interpolations and subsets are found, those by chance are not, and p-values are right under chance."""

import numpy as np
import pytest
import scipy.stats

from quadric.evidence.patterns.statistics import (
    ARRANGEMENTS,
    FEWEST_DOCUMENTS,
    FEWEST_OF_KIND,
    FURTHER,
    MOST_KINDS,
    Firing,
    adjusted_gains,
    clouds,
    corrected,
    excess,
    interpolation,
    leading_ray,
    p_values,
    separation,
    stretches,
    subset,
    two_sided,
    with_heavy_tails,
)

GENERATOR = np.random.default_rng
DIRECTION = np.array([2.0, -1.0, 2.0]) / 3
N_KINDS, PER_KIND = 6, 40


def test_p_values_count_chance_values_that_are_at_least_as_large() -> None:
    found = p_values(np.array([0.5, 2.0, 4.0, np.nan]), np.array([3.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, [1.0, 0.75, 0.25, np.nan])


def test_by_hand_as_benjamini_and_hochberg() -> None:
    """Limits 0.0125, 0.025, 0.0375, 0.05: the third passes, and takes the second with it."""
    p = np.array([0.03, 0.9, np.nan, 0.001, 0.028])
    np.testing.assert_allclose(corrected(p), [0.04, 0.9, np.nan, 0.004, 0.04])
    np.testing.assert_allclose(corrected(np.array([np.nan, 0.5])), [np.nan, 0.5])
    assert corrected(np.empty(0)).shape == (0,)


def test_corrected_values_are_those_of_scipy() -> None:
    p = np.round(np.random.default_rng(1).random(50), 2)  # with ties
    np.testing.assert_allclose(corrected(p), scipy.stats.false_discovery_control(p))


@pytest.mark.parametrize("share_true", [0.0, 0.5])
def test_the_share_of_false_discoveries_is_at_most_the_rate(share_true: float) -> None:
    generator, false_shares = np.random.default_rng(0), []
    for _ in range(400):
        is_true = generator.random(100) < share_true
        p = np.where(is_true, generator.random(100) * 1e-3, generator.random(100))
        found = corrected(p) <= 0.1
        false_shares.append((found & ~is_true).sum() / max(1, found.sum()))
    assert np.mean(false_shares) < 0.1 * (1 - share_true) + 0.04


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


def test_power_and_false_positives_of_cones() -> None:
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


def test_power_of_interpolations() -> None:
    """Six kinds in space, one of them spanning a path: found at p ≤ 0.05 in most draws."""
    p = [interpolation(*with_planted_middle(seed), np.random.default_rng(seed)).p_value for seed in range(40)]
    assert sum(each <= 0.05 for each in p) >= 24


def test_false_positives_of_interpolations() -> None:
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
    kinds = np.concatenate([np.full(FEWEST_OF_KIND + kind, kind) for kind in range(20)] + [np.full(5, 99)])
    found = clouds(np.random.default_rng(0).standard_normal((len(kinds), 3)), kinds)
    assert found.kinds.tolist() == list(range(19, 19 - MOST_KINDS, -1))
    few = interpolation(np.zeros((10, 3)), np.zeros(10, dtype=np.int64), np.random.default_rng(0))
    assert np.isnan(few.p_value)
    assert few.kinds is None


def firing(seed: int, decided: float, n: int = 120, n_neighbours: int = 12) -> Firing:
    """One token; with the probability `decided` its sign follows from the token after."""
    generator = np.random.default_rng(seed)
    after = generator.integers(0, n_neighbours, n)
    by_context, by_chance = after % 2 == 0, generator.random(n) < 0.5
    positive = np.where(generator.random(n) < decided, by_context, by_chance)
    before = generator.integers(0, n_neighbours, n)
    return Firing(np.full(n, 4), positive, np.arange(n), before, after)


def test_a_context_that_decides_the_sign_has_gain_1() -> None:
    found = subset(firing(0, decided=1.0), np.random.default_rng(0))
    assert found.gain == pytest.approx(1)
    assert found.p_value == pytest.approx(0.001)
    assert found.token == 4


def test_power_of_subsets() -> None:
    found = [subset(firing(seed, decided=0.7), np.random.default_rng(seed)).p_value <= 0.01 for seed in range(20)]
    assert sum(found) >= 19


def test_false_positives_of_subsets() -> None:
    p = np.array([subset(firing(seed, decided=0.0), np.random.default_rng(seed)).p_value for seed in range(100)])
    assert (p <= 0.05).mean() <= 0.12
    assert 0.3 < (p <= 0.5).mean() < 0.7


def test_neighbours_that_occur_once_say_nothing() -> None:
    """They determine the sign of every point they were seen with, which is no evidence."""
    part = firing(0, decided=1.0)._replace(before=np.arange(120), after=np.arange(120))
    found = separation(part, np.random.default_rng(0))
    assert found.gain == 0
    assert found.p_value == 1


def test_the_gain_is_the_mutual_information_of_scikit_learn() -> None:
    from sklearn.metrics import mutual_info_score

    generator = np.random.default_rng(0)
    signs, neighbours = generator.random((50, 80)) < 0.4, generator.integers(0, 5, 80)
    signs[1:] = generator.permuted(np.tile(signs[0], (49, 1)), axis=1)
    bits = np.array([mutual_info_score(row, neighbours) for row in signs]) / np.log(2)
    share = signs[0].mean()
    entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    expected = (bits - bits[1:].mean()) / (entropy - bits[1:].mean())
    np.testing.assert_allclose(adjusted_gains(signs, neighbours), expected, atol=1e-9)


def test_a_document_counts_once_by_its_strongest_point() -> None:
    one = firing(0, decided=1.0)
    repeated = Firing(*(np.repeat(column, 3) for column in one))
    (part,) = two_sided(repeated)
    assert len(part.tokens) == 120
    flipped = Firing(*(np.concatenate([column, column]) for column in one))._replace(
        positive=np.concatenate([one.positive, ~one.positive])
    )
    (part,) = two_sided(flipped)
    np.testing.assert_array_equal(part.positive, one.positive)


def test_a_token_on_one_side_only_is_not_tested() -> None:
    part = firing(0, decided=1.0)
    few = part._replace(positive=np.arange(120) < FEWEST_DOCUMENTS - 1)
    assert two_sided(few) == []
    assert np.isnan(subset(few, np.random.default_rng(0)).p_value)


def test_p_values_count_the_tokens_that_were_tested() -> None:
    parts = [firing(seed, decided=0.0)._replace(tokens=np.full(120, seed)) for seed in range(3)]
    parts.append(firing(9, decided=1.0)._replace(tokens=np.full(120, 9)))
    found = subset(Firing(*(np.concatenate(column) for column in zip(*parts, strict=True))), np.random.default_rng(0))
    assert (found.token, found.p_value) == (9, pytest.approx(0.004))
