"""The draw, weighed back, speaks for the whole pass; preferred tokens are those that tell."""

import numpy as np
import pytest

from quadric.evidence.token_energy import PRIOR_TOKENS, energies, preferences


def test_energies_of_the_draw_estimate_the_sum_over_all_tokens_without_bias() -> None:
    generator = np.random.default_rng(0)
    values = (generator.standard_normal(400) ** 3).astype(np.float32) / 10
    chosen = np.arange(400) % 3 == 0
    exact = np.square(values[chosen].astype(float)).sum()
    estimates = []
    for _ in range(3000):
        keys = generator.exponential(size=400) / (np.abs(values) + 0.05) ** 4
        drawn = np.argsort(keys)[:40]
        energy = energies(values[drawn], keys[drawn], 0.05, complete=False)
        estimates.append(energy[chosen[drawn]].sum())
    standard_error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - exact) < 4 * standard_error
    assert standard_error < 0.02 * exact


def test_a_draw_that_holds_everything_is_taken_as_it_is() -> None:
    values = np.array([1, -2], dtype=np.float32)
    np.testing.assert_allclose(energies(values, np.array([3.0, 4.0]), 1e-4, complete=True), [1, 4])


def test_preference_is_share_times_log_lift_with_the_stated_prior() -> None:
    frequencies = np.array([0.7, 0.2, 0.1])
    tokens = np.array([0, 1, 1, 2], dtype=np.int32)
    energy = np.array([1.0, 2.0, 2.0, 3.0])
    found = preferences(tokens, energy, frequencies)
    effective = 8**2 / (1 + 4 + 4 + 9)
    shares = (effective * np.array([1, 4, 3]) / 8 + PRIOR_TOKENS * frequencies) / (effective + PRIOR_TOKENS)
    assert set(found.tokens) == {1, 2}
    for token, share, lift, contribution in zip(*found, strict=True):
        assert share == pytest.approx(shares[token])
        assert lift == pytest.approx(shares[token] / frequencies[token])
        assert contribution == pytest.approx(share * np.log(lift))
    assert (np.diff(found.contributions) <= 0).all()


def test_a_rare_token_seen_once_does_not_beat_a_common_pattern() -> None:
    frequencies = np.full(1000, 1e-3)
    tokens = np.array([5] + [6] * 30 + list(range(100, 130)), dtype=np.int32)
    found = preferences(tokens, np.ones(len(tokens)), frequencies)
    assert found.tokens[0] == 6


def test_nothing_fires_nothing_is_preferred() -> None:
    assert len(preferences(np.empty(0, dtype=np.int32), np.empty(0), np.ones(3)).tokens) == 0
