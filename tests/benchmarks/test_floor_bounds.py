"""The bounds of the floor are the errors of PCA on its own tokens and on others, and the floor lies between them."""

import pytest

from benchmarks.floor_bounds import floor_bounds
from quadric.evaluation.measures import product_space_basis
from tests.evaluation.test_floor import tokens


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
