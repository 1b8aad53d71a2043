"""Shares of the sphere: against mpmath to sixty digits, closed forms, and sampling."""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.studies.receptive_field import (
    _log_positive_share,
    log_half_space_share,
    log_receptive_field_share,
    log_slab_share,
)

WIDTHS = [2, 3, 5, 64, 1024, 16384]
THRESHOLDS = [1e-9, 1e-4, 0.01, 0.25, 0.5, 0.9, 0.999999]


def exact_log_slab_share(threshold: float, d: int) -> float:
    with mpmath.workdps(60):
        upper = 1 - mpmath.mpf(threshold)
        return float(mpmath.log(mpmath.betainc(mpmath.mpf(d - 1) / 2, 0.5, 0, upper, regularized=True)))


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("threshold", [*THRESHOLDS, "typical"])
def test_slabs_are_exact_incomplete_beta_functions(threshold, d):
    threshold = 1.5 / d if threshold == "typical" else threshold
    expected = exact_log_slab_share(threshold, d)
    assert log_slab_share(threshold, d) == pytest.approx(expected, rel=1e-12, abs=1e-9)
    # √τ is rounded, which counts where 1 − τ is small
    assert log_half_space_share(threshold**0.5, d) == pytest.approx(expected - math.log(2), rel=1e-8)
    assert log_receptive_field_share(torch.tensor([3.0]), 3 * threshold, d) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_general_method_agrees_on_rank_one(threshold, d):
    differences = torch.tensor([1 - threshold, -threshold], dtype=torch.float64)
    counts = torch.tensor([1, d - 1], dtype=torch.float64)
    expected = exact_log_slab_share(threshold, d)
    assert _log_positive_share(differences, counts) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("d", [3, 64, 1024, 16384])
@pytest.mark.parametrize("threshold", [1e-6, 1e-3, 0.1, 0.5, 0.99])
def test_circles_have_a_closed_form(threshold, d):
    """The energy in a plane is Beta(1, (d−2)/2), so P = (1 − τ)^{(d−2)/2}."""
    expected = (d - 2) / 2 * math.log1p(-threshold)
    found = log_receptive_field_share(torch.ones(2, dtype=torch.float64), threshold, d)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("rank", [4, 8])
def test_spheres_of_even_rank_against_mpmath(rank):
    for d, threshold in ((64, 0.3), (1024, 0.05), (1024, 0.7)):
        with mpmath.workdps(60):
            parts = mpmath.mpf(d - rank) / 2, mpmath.mpf(rank) / 2
            tail = mpmath.betainc(*parts, 0, 1 - mpmath.mpf(threshold), regularized=True)
        found = log_receptive_field_share(torch.ones(rank, dtype=torch.float64), threshold, d)
        assert found == pytest.approx(float(mpmath.log(tail)), rel=1e-10)


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        ([1.0, 0.5, -0.7], 0.1),
        ([1.0, -1.0], 0.0),
        ([1.0, -1.0], -0.5),
        ([-1.0, -0.5], -0.2),
        ([-2.0], -0.5),
        ([1.0, 0.2, 0.1, 0.5, 0.3, 0.7], 0.25),
        ([5.0, -0.01, -0.02], 3.0),
    ],
)
def test_weighted_sums_of_squares_against_sampling(values, threshold):
    x = torch.randn(1_000_000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = (x / x.norm(dim=-1, keepdim=True)).square()
    weights = torch.tensor(values, dtype=torch.float64)
    sampled = float((squares[:, : len(values)] @ weights > threshold).double().mean())
    found = math.exp(log_receptive_field_share(weights, threshold, 6))
    assert found == pytest.approx(sampled, abs=5 * (found * (1 - found) / len(x)) ** 0.5)


@given(
    # No subnormal numbers: scaling those down loses them.
    st.lists(
        st.floats(-2, 2, allow_subnormal=False) | st.floats(-1e-8, 1e-8, allow_subnormal=False) | st.floats(500, 1000),
        min_size=1,
        max_size=8,
    ),
    st.floats(-1.5, 1.5),
    st.integers(8, 16384),
    st.floats(0.1, 10),
)
@settings(max_examples=100)
def test_shares_are_probabilities_that_do_not_depend_on_scale(values, threshold, d, scale):
    eigenvalues = torch.tensor(values, dtype=torch.float64)
    found = log_receptive_field_share(eigenvalues, threshold, d)
    assert found <= 1e-12
    assert log_receptive_field_share(scale * eigenvalues, scale * threshold, d) == pytest.approx(
        found, rel=1e-6, abs=1e-6
    )
    higher = log_receptive_field_share(eigenvalues, threshold + 0.1, d)
    assert higher == -math.inf or higher <= found + 1e-9 * max(1, abs(found))


def test_edges():
    one, never, always = torch.tensor([1.0]), -math.inf, 0.0
    assert log_slab_share(-1.0, 5) == log_slab_share(0.0, 5) == always
    assert log_slab_share(1.0, 5) == log_slab_share(2.0, 5) == never
    assert log_slab_share(0.5, 1) == always
    assert log_half_space_share(0.0, 7) == pytest.approx(math.log(0.5))
    assert math.exp(log_half_space_share(-0.3, 7)) == pytest.approx(1 - math.exp(log_half_space_share(0.3, 7)))
    assert log_receptive_field_share(one, 0.5, 1) == always
    assert log_receptive_field_share(one, 1.5, 1) == never
    assert log_receptive_field_share(-one, 0.0, 4) == never
    assert log_receptive_field_share(-one, -2.0, 4) == always
    assert log_receptive_field_share(torch.zeros(0), 0.1, 4) == never
    assert log_receptive_field_share(torch.zeros(2), -0.1, 4) == always
    assert log_receptive_field_share(torch.ones(3), 0.5, 3) == always


def test_the_papers_example():
    """Theorem 1 at τ = ½, d = 1024: the exact ratio is 10⁻⁸⁹·⁹, not the printed 10⁻⁵⁶."""
    ratio = (log_slab_share(0.5, 1024) - log_half_space_share(0.5, 1024)) / math.log(10)
    assert ratio == pytest.approx(-89.92, abs=0.005)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="d_model=0 is not positive"):
        log_slab_share(0.5, 0)
    with pytest.raises(ValueError, match="3 eigenvalues exceed d_model=2"):
        log_receptive_field_share(torch.ones(3), 0.5, 2)
