"""Theorem 1: slabs are exponentially rarer than half-spaces on the sphere. True, but not at the printed rate.

For x uniform on S^{d−1}, (w·x)² follows Beta(½, (d−1)/2), so both shares are incomplete beta functions:

    P((w·x)² > τ) = I_{1−τ}((d−1)/2, ½),     P(w·x > τ) = ½ I_{1−τ²}((d−1)/2, ½).

The printed proof replaces √d (w·x) by a Gaussian. That is right near the centre, but a fixed τ lies √d standard
deviations out, where the sphere's tail is (1−τ²)^{d/2} and the Gaussian's e^{−τ²d/2}. The exact ratio is

    2√τ (1+τ)^{−(d−1)/2} (1 + O(1/d)),     not     Θ(e^{−dτ(1−τ)/2}):

at τ = ½, d = 1024 it is ≈ 10⁻⁹⁰, where the printed law gives ≈ 10⁻⁵⁶. The gap is larger than the paper claims.
"""

from itertools import pairwise

import mpmath
import pytest
import torch

mpmath.mp.dps = 60
THRESHOLDS = [0.1, 0.5, 0.9]


def slab_share(threshold: float, d: int) -> mpmath.mpf:
    return mpmath.betainc(mpmath.mpf(d - 1) / 2, mpmath.mpf(1) / 2, 0, 1 - mpmath.mpf(threshold), regularized=True)


def half_space_share(threshold: float, d: int) -> mpmath.mpf:
    upper = 1 - mpmath.mpf(threshold) ** 2
    return mpmath.betainc(mpmath.mpf(d - 1) / 2, mpmath.mpf(1) / 2, 0, upper, regularized=True) / 2


def log10_ratio(threshold: float, d: int) -> float:
    return float(mpmath.log10(slab_share(threshold, d)) - mpmath.log10(half_space_share(threshold, d)))


def printed_law(threshold: float, d: int) -> float:
    return -d * threshold * (1 - threshold) / 2 / float(mpmath.log(10))


def exact_law(threshold: float, d: int) -> float:
    return float(mpmath.log10(2 * mpmath.sqrt(threshold)) - mpmath.mpf(d - 1) / 2 * mpmath.log10(1 + threshold))


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_beta_tails_are_exact(threshold):
    """On S² the projection is uniform (Archimedes), and on any sphere sampling agrees."""
    assert float(slab_share(threshold, 3)) == pytest.approx(1 - threshold**0.5, rel=1e-12)
    assert float(half_space_share(threshold, 3)) == pytest.approx((1 - threshold) / 2, rel=1e-12)
    x = torch.randn(400_000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    projection = (x / x.norm(dim=-1, keepdim=True))[:, 0]
    for share, hits in (
        (slab_share(threshold, 6), projection.square() > threshold),
        (half_space_share(threshold, 6), projection > threshold),
    ):
        p = float(share)
        assert abs(hits.double().mean() - p) < 5 * (p * (1 - p) / len(x)) ** 0.5


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_ratio_falls_exponentially_in_d(threshold):
    ratios = [log10_ratio(threshold, d) for d in (64, 128, 256, 512)]
    assert all(later < 1.8 * earlier < 0 for earlier, later in pairwise(ratios))


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_exact_rate(threshold):
    """The correction beyond 2√τ(1+τ)^{−(d−1)/2} vanishes like 1/d."""
    gaps = [abs(log10_ratio(threshold, d) - exact_law(threshold, d)) for d in (2048, 4096, 8192)]
    assert gaps[-1] < 0.01
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_printed_rate_is_not_of_the_same_order(threshold):
    """Θ would mean that the two differ by a constant factor; in fact the factor grows exponentially in d."""
    gaps = [printed_law(threshold, d) - log10_ratio(threshold, d) for d in (512, 1024, 2048)]
    assert gaps[1] / gaps[0] == pytest.approx(2, rel=0.15)
    assert gaps[2] / gaps[1] == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_printed_rate_is_that_of_gaussian_tails(threshold):
    def gaussian(d: int) -> float:
        tail = [mpmath.erfc(t * mpmath.sqrt(mpmath.mpf(d) / 2)) / 2 for t in (mpmath.sqrt(threshold), threshold)]
        return float(mpmath.log10(2 * tail[0] / tail[1]))

    slope = gaussian(8192) - gaussian(4096)
    assert slope == pytest.approx(printed_law(threshold, 8192) - printed_law(threshold, 4096), abs=0.01)


def test_the_number_in_the_paper():
    assert printed_law(0.5, 1024) == pytest.approx(-55.6, abs=0.05)  # the paper's ≈10⁻⁵⁶
    assert log10_ratio(0.5, 1024) == pytest.approx(-89.9, abs=0.05)  # what it really is
