"""Distances between predictions against sums written out."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from quadric.studies.steering.measures import divergence, hellinger, mass, pairwise_hellinger

WEIGHTS = st.lists(st.floats(0.01, 10), min_size=4, max_size=4)


def distribution(weights: list[float]) -> list[float]:
    return [each / sum(weights) for each in weights]


@given(WEIGHTS, WEIGHTS)
def test_against_sums_written_out(first: list[float], second: list[float]) -> None:
    p, q = distribution(first), distribution(second)
    log_p, log_q = torch.tensor(p).double().log(), torch.tensor(q).double().log()
    naive = math.sqrt(sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in zip(p, q, strict=True)) / 2)
    assert math.isclose(float(hellinger(log_p, log_q)), naive, abs_tol=1e-7)
    naive = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert math.isclose(float(divergence(log_p, log_q)), naive, abs_tol=1e-6)
    assert math.isclose(float(mass(log_p, [1, 3, 3])), p[1] + p[3], abs_tol=1e-6)


def test_an_outcome_of_probability_zero_adds_nothing() -> None:
    certain, fair = torch.tensor([1.0, 0.0]).log(), torch.tensor([0.5, 0.5]).log()
    assert math.isclose(float(divergence(certain, fair)), math.log(2), rel_tol=1e-6)
    assert float(divergence(certain, certain)) == 0
    assert float(divergence(fair, certain)) == math.inf
    assert float(hellinger(certain, torch.tensor([0.0, 1.0]).log())) == 1


def test_pairs() -> None:
    log_p = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    found = pairwise_hellinger(log_p)
    for i in range(5):
        for j in range(5):
            assert torch.isclose(found[i, j], hellinger(log_p[i], log_p[j]))
