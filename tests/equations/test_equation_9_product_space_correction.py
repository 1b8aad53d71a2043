"""Equation 9: the error of a linear reconstruction in the product space, in its three printed forms."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.objective import product_space_error
from tests import naive, zoo


@given(st.integers(0, 1000), st.floats(0.01, 3))
def test_the_three_forms_agree(seed, size):
    x = torch.nn.functional.normalize(zoo.tokens(seed=seed), dim=-1)
    reconstruction = size * zoo.tokens(seed=seed + 1)
    exact = (naive.lift(x) - naive.lift(reconstruction)).square().sum((1, 2))
    norm, s = reconstruction.square().sum(-1), (x - reconstruction).square().sum(-1)
    second = 1 + norm**2 - 2 * (x * reconstruction).sum(-1) ** 2
    third = (1 - norm) ** 2 / 2 + s * (1 + norm) - s**2 / 2
    for form in (second, third, product_space_error(x, reconstruction)):
        assert_close(form, exact, rtol=1e-7, atol=1e-9)


def test_it_is_normalized_for_tokens_of_any_norm():
    x, reconstruction = zoo.tokens(), zoo.tokens(seed=9)
    exact = (naive.lift(x) - naive.lift(reconstruction)).square().sum((1, 2)) / naive.lift(x).square().sum((1, 2))
    assert_close(product_space_error(x, reconstruction), exact)


def test_twice_the_input_error_is_only_an_approximation():
    """S ≈ 2s for good reconstructions of unit norm, and far off for a poor or shrunken one."""
    x = torch.nn.functional.normalize(zoo.tokens(), dim=-1)
    near = torch.nn.functional.normalize(x + 0.02 * torch.nn.functional.normalize(zoo.tokens(seed=8), dim=-1), dim=-1)
    s = (x - near).square().sum(-1)
    assert_close(product_space_error(x, near), 2 * s, rtol=1e-3, atol=1e-9)
    shrunken = 0.5 * x
    assert_close(product_space_error(x, shrunken), torch.full((len(x),), 1 - 2 / 4 + 1 / 16, dtype=torch.float64))
    assert abs(2 * (x - shrunken).square().sum(-1) - 0.5625).min() > 0.06
