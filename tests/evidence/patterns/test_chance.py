"""p-values are right under chance, and false discoveries stay at their rate."""

import numpy as np
import pytest
import scipy.stats

from quadric.evidence.patterns.chance import corrected, p_values


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
