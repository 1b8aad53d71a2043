"""Functions with one turning point, against the slowest way to find them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.evidence.turning import (
    Bins,
    bin_sizes,
    binned,
    curve,
    isotonic,
    prefix_errors,
    rising,
    turns,
)


def as_bins(means: np.ndarray) -> Bins:
    """Bins of one token each."""
    r, b = means.shape
    positions = np.broadcast_to(np.arange(b, dtype=np.float64), (r, b)).copy()
    return Bins(np.argsort(positions), np.ones(b, dtype=np.int64), positions, means, np.zeros(r))


def naive_error(means: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * np.square(means - isotonic(means, weights))).sum())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_errors_of_prefixes_are_those_of_isotonic_regression(seed: int, n_bins: int) -> None:
    generator = np.random.default_rng(seed)
    means = generator.normal(size=(4, n_bins)).round(1)  # with ties
    sizes = generator.integers(1, 9, n_bins)
    errors = prefix_errors(means, (sizes, sizes[::-1].copy()))
    for row, weights in enumerate((sizes, sizes, sizes[::-1], sizes[::-1])):
        expected = [0.0] + [naive_error(means[row, :end], weights[:end]) for end in range(1, n_bins + 1)]
        np.testing.assert_allclose(errors[row], expected, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_turning_point_is_the_best_of_all(seed: int) -> None:
    means = np.random.default_rng(seed).normal(size=(3, 9))
    found = turns(as_bins(means))
    ones = np.ones(9, dtype=np.int64)
    for row in range(3):
        errors = [
            naive_error(-sign * means[row, :place], ones[:place]) + naive_error(sign * means[row, place:], ones[place:])
            for sign, place in itertools.product((1, -1), range(10))
        ]
        assert found.errors[row] == pytest.approx(min(errors))
        fitted = curve(as_bins(means), found, row)
        assert np.square(fitted.values - means[row]).sum() == pytest.approx(min(errors))


@pytest.mark.parametrize("n", [3, 40, 1_000, 10_001])
def test_bins_hold_every_token_once_and_are_fine_at_both_ends(n: int) -> None:
    sizes = bin_sizes(n)
    assert sizes.sum() == n
    assert (sizes > 0).all()
    if n >= 1_000:
        assert sizes[0] == sizes[-1] == 1 < sizes.max()


FUNCTIONS = {
    "square": np.square,
    "step": lambda x: np.float64(x > 1),
    "bump": lambda x: np.exp(-np.square(x)),
    "relu": lambda x: np.maximum(x - 1, 0),
    "line": lambda x: -2 * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_one_turning_point_are_found_on_other_tokens(name: str) -> None:
    generator = np.random.default_rng(0)
    x, other = generator.standard_t(5, (2, 4_000))
    bins = binned(x[None], FUNCTIONS[name](x)[None])
    fitted = curve(bins, turns(bins), 0)
    truth = FUNCTIONS[name](other)
    assert np.square(truth - fitted(other)).sum() < 0.02 * np.square(truth - truth.mean()).sum()


def test_a_wave_has_too_many_turns() -> None:
    x = np.linspace(-6, 6, 4_000)
    bins = binned(x[None], np.sin(2 * x)[None])
    fitted = curve(bins, turns(bins), 0)
    assert np.square(np.sin(2 * x) - fitted(x)).mean() > 0.3


def test_beyond_the_outermost_bin_a_square_goes_on_and_a_step_stays() -> None:
    x = np.linspace(-1, 1, 2_000)
    for name, expected in (("square", 1.44), ("step", 0.0), ("line", -2.4)):
        bins = binned(x[None], FUNCTIONS[name](x)[None])
        assert curve(bins, turns(bins), 0)(np.array([1.2]))[0] == pytest.approx(expected, abs=0.06)


def test_a_rising_curve_never_falls() -> None:
    x = np.random.default_rng(0).normal(size=500)
    fitted = rising(binned(x[None], np.square(x)[None]), 0)
    assert (np.diff(fitted.values) >= 0).all()
