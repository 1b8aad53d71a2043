"""Quantiles from a few stored ones: exact at the knots, monotone between, bounded beyond."""

import numpy as np
import pytest

from quadric.evidence.firing import PROBABILITIES
from quadric.explanations.explaining import quantiles_of, surprise

STORED = np.array([np.linspace(-4, 4, 9), np.linspace(0, 1, 9) ** 3], dtype=np.float32)


def test_stored_values_have_their_own_probability() -> None:
    for at, probability in enumerate(PROBABILITIES):
        assert quantiles_of(STORED[:, at][None], STORED, PROBABILITIES)[0] == pytest.approx([probability] * 2, rel=1e-6)


def test_values_beyond_the_ends_stay_at_the_bound() -> None:
    values = np.array([[-100.0, -1.0], [100.0, 2.0]], dtype=np.float32)
    assert quantiles_of(values, STORED, PROBABILITIES) == pytest.approx(np.array([[0.001] * 2, [0.999] * 2]))


def test_quantiles_grow_with_the_value_and_follow_a_logistic_distribution_exactly() -> None:
    probabilities = np.array(PROBABILITIES)
    logistic = np.log(probabilities / (1 - probabilities))[None].astype(np.float32)
    values = np.linspace(-6.9, 6.9, 501, dtype=np.float32)[:, None]
    found = quantiles_of(values, logistic, PROBABILITIES)
    assert (np.diff(found[:, 0]) > 0).all()
    inside = np.abs(values[:, 0]) < 6.9
    assert found[inside, 0] == pytest.approx(1 / (1 + np.exp(-values[inside, 0])), rel=1e-3, abs=1e-4)


def test_a_value_that_many_tokens_share_is_in_the_middle_of_them() -> None:
    silent = np.array([[-1, 0, 0, 0, 0, 0, 0, 0, 5]], dtype=np.float32)
    zero = quantiles_of(np.zeros((1, 1), dtype=np.float32), silent, PROBABILITIES)[0, 0]
    assert 0.4 < zero < 0.6
    assert quantiles_of(np.full((1, 1), 0.01, dtype=np.float32), silent, PROBABILITIES)[0, 0] > 0.98


def test_surprise_is_even_and_zero_at_the_median() -> None:
    quantiles = np.array([[0.5, 0.25, 0.75, 0.001, 0.999]])
    assert surprise(quantiles)[0] == pytest.approx([0, 1, 1, np.log2(500), np.log2(500)])
