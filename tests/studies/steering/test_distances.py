"""Mahalanobis distance and nearest neighbour against the plain formulas."""

import pytest
import torch

from quadric.studies.steering.distances import RIDGE, CorpusSpace

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
