"""A token whose context decides its sign is found; a token with signs by chance is not."""

import numpy as np
import pytest

from quadric.evidence.patterns.subsets import FEWEST_DOCUMENTS, Firing, adjusted_gains, separation, subset, two_sided


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


def test_power() -> None:
    found = [subset(firing(seed, decided=0.7), np.random.default_rng(seed)).p_value <= 0.01 for seed in range(20)]
    assert sum(found) >= 19


def test_false_positives() -> None:
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
