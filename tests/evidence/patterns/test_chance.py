"""p-values are right under chance, and false discoveries stay at their rate."""

import numpy as np
import pytest

from quadric.evidence.patterns.chance import discoveries, p_values


def test_p_values_count_chance_values_that_are_at_least_as_large() -> None:
    found = p_values(np.array([0.5, 2.0, 4.0, np.nan]), np.array([3.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, [1.0, 0.75, 0.25, np.nan])


def test_by_hand_as_benjamini_and_hochberg() -> None:
    """Limits 0.0125, 0.025, 0.0375, 0.05: the third passes, and takes the second with it."""
    p = np.array([0.03, 0.9, np.nan, 0.001, 0.028])
    assert discoveries(p, 0.05).tolist() == [True, False, False, True, True]
    assert not discoveries(np.array([np.nan, 0.5]), 0.05).any()
    assert discoveries(np.empty(0), 0.05).shape == (0,)


@pytest.mark.parametrize("share_true", [0.0, 0.5])
def test_the_share_of_false_discoveries_is_at_most_the_rate(share_true: float) -> None:
    generator, false_shares = np.random.default_rng(0), []
    for _ in range(400):
        is_true = generator.random(100) < share_true
        p = np.where(is_true, generator.random(100) * 1e-3, generator.random(100))
        found = discoveries(p, 0.1)
        false_shares.append((found & ~is_true).sum() / max(1, found.sum()))
    assert np.mean(false_shares) < 0.1 * (1 - share_true) + 0.04
