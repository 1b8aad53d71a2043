"""The floor against PCA of materialized matrices, and against dictionaries that may not fall below it."""

import pytest
import torch

import quadric
from quadric.evaluation.measures import product_space_basis, product_space_floor
from quadric.model import Error
from quadric.model.objective import unit_tokens


def tokens(n: int, d: int = 6, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit_tokens(torch.randn(n, d, generator=generator, dtype=torch.float64) * torch.linspace(0.3, 2, d) + 0.5)


@pytest.mark.parametrize("k", [1, 4, 12])
def test_it_is_pca_of_the_lifted_tokens(k: int) -> None:
    sample, rest = tokens(300), tokens(200, seed=1)
    lifted = torch.einsum("nd,ne->nde", sample, sample).flatten(1)
    components = torch.linalg.svd(lifted, full_matrices=False).Vh[:k]
    others = torch.einsum("nd,ne->nde", rest, rest).flatten(1)
    expected = 1 - (others @ components.mT).square().sum(-1)
    assert torch.allclose(product_space_basis(sample, k).error(rest), expected, atol=1e-6)


@pytest.mark.slow
def test_all_dimensions_of_the_product_space_leave_nothing() -> None:
    sample = tokens(300)
    error = product_space_basis(sample, 40).error(tokens(50, seed=1))  # 21 = 6 · 7 / 2 dimensions
    assert error.abs().max() < 1e-6


def test_no_dictionary_of_that_size_falls_below_it() -> None:
    x = tokens(2000).float()
    for prior in ("quadratic", "composite", "atomic"):
        ae = quadric.fit(x, n_latents=8, prior=prior, loss=[Error()], steps=120, batch_tokens=512, progress=False)
        floor = product_space_floor(x, 8)
        assert floor is not None
        assert quadric.evaluate(ae, x).error > floor - 0.003


def test_too_few_tokens_say_nothing() -> None:
    assert product_space_floor(tokens(60), 8) is None
    assert product_space_floor(tokens(66), 8) is not None
