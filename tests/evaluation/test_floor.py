"""The floor against PCA of materialized matrices, and against dictionaries that may not fall below it."""

import pytest
import torch

import quadric
from quadric.evaluation.floor import floor_bounds, product_space_basis, product_space_floor
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


def test_bounds_are_the_errors_on_sample_and_other_tokens() -> None:
    sample, rest = tokens(300), tokens(200, seed=1)
    for bounds in floor_bounds(sample, rest, [12, 1, 4]):
        basis = product_space_basis(sample, bounds.n_latents)
        assert bounds.fitted == pytest.approx(basis.error(sample).mean().item(), abs=1e-6)
        assert bounds.held_out == pytest.approx(basis.error(rest).mean().item(), abs=1e-6)


def test_the_floor_of_many_tokens_lies_between_the_bounds_of_few() -> None:
    truth = product_space_basis(tokens(20_000, seed=2), 8).error(tokens(5000, seed=3)).mean().item()
    bounds = [floor_bounds(tokens(40, seed=seed), tokens(5000, seed=3), [8])[0] for seed in range(10, 20)]
    assert sum(each.fitted for each in bounds) / 10 < truth < min(each.held_out for each in bounds)


def test_more_components_than_sample_tokens_are_an_error() -> None:
    with pytest.raises(ValueError, match="give more tokens"):
        floor_bounds(tokens(8), tokens(8), [8])
