"""Distances of predictions against sums written out, of activations against the naive form; tokens of a latent."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadric.studies.steering.measures import (
    RIDGE,
    CorpusSpace,
    divergence,
    following_tokens,
    hellinger,
    latent_tokens,
    mass,
)
from tests.studies.steering.conftest import Steerable

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


CORPUS = torch.randn(400, 6, generator=torch.Generator().manual_seed(0)) @ torch.diag(torch.arange(1.0, 7)) + 2
OTHERS = torch.randn(9, 6, generator=torch.Generator().manual_seed(1)) * 4 - 1


def unit(x: torch.Tensor) -> torch.Tensor:
    return x.double() / x.double().norm(dim=1, keepdim=True)


def naive_square(difference: torch.Tensor) -> torch.Tensor:
    """dᵀ(Σ + ridge)⁻¹d / 6 of one difference between unit tokens."""
    covariance = torch.cov(unit(CORPUS).mT, correction=0)
    ridge = RIDGE * covariance.trace() / 6 * torch.eye(6).double()
    return difference @ torch.linalg.inv(covariance + ridge) @ difference / 6


def test_against_the_plain_formulas() -> None:
    found = CorpusSpace(CORPUS).distances(OTHERS)
    corpus, others = unit(CORPUS), unit(OTHERS)
    for row, token in enumerate(others):
        assert torch.isclose(found.mahalanobis[row] ** 2, naive_square(token - corpus.mean(0)), rtol=1e-4)
        nearest = min(float(naive_square(token - other)) for other in corpus)
        assert abs(float(found.nearest[row]) ** 2 - nearest) < 1e-4 * nearest + 1e-8


def test_corpus_tokens_are_at_distance_one_and_their_own_neighbours() -> None:
    found = CorpusSpace(CORPUS).distances(CORPUS)
    assert abs(float(found.mahalanobis.square().mean()) - 1) < 0.02
    assert float(found.nearest.max()) < 1e-5


def test_too_few_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"corpus has 6 tokens of width 6.*give at least 24"):
        CorpusSpace(CORPUS[:6])


def test_following_tokens_against_a_count(steerable: Steerable) -> None:
    evidence, latent = steerable.evidence, 3
    text, starts = evidence.text.token_ids, set(evidence.text.sequence_starts.tolist())
    rest = float(evidence.calibration.rest[latent])
    for side, above in ((0, True), (1, False)):
        following = [
            int(text[place + 1])
            for place, value in zip(evidence.points.places[latent], evidence.points.values[latent], strict=True)
            if place >= 0 and (value >= rest) == above and place + 1 < len(text) and place + 1 not in starts
        ]
        excess = {token: n / len(following) - np.mean(text == token) for token, n in Counter(following).items()}
        found = following_tokens(evidence, latent, side)
        expected = sorted((value for value in excess.values() if value > 0), reverse=True)[:12]
        assert np.allclose([excess[token] for token in found], expected)


def test_ids_are_those_of_the_model(steerable: Steerable) -> None:
    evidence = steerable.evidence
    tokenizer = steerable.model.tokenizer
    found = latent_tokens(evidence, 3, tokenizer, len(tokenizer.hf), 1e9 * float(evidence.calibration.signs[3]))
    lifted = [evidence.text.vocabulary[token] for token in evidence.statistics.lift_tokens[3, 0] if token >= 0]
    assert [tokenizer.decode(token).encode() for token in found.own] == lifted
    with pytest.raises(ValueError, match="no token on which latent 3 fires above"):
        latent_tokens(evidence, 3, tokenizer, 2, 1e9 * float(evidence.calibration.signs[3]))
