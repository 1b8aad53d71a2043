"""Sparse products against dense ones: values and gradients."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.autoencoders.kernels.csr import csr_matmul, csr_pattern


def random_sparse(rows: int, columns: int, density: float):
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows + 7 * columns)) < density
    pattern = csr_pattern(*mask.nonzero(as_tuple=True), (rows, columns))
    values = torch.randn(int(mask.sum()), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return mask, pattern, values


def dense_of(mask, values):
    return torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(1, 6), columns=st.integers(1, 6), width=st.integers(1, 4), density=st.sampled_from([0.0, 0.3, 1.0])
)
def test_product_and_gradients_match_dense(rows, columns, width, density):
    mask, pattern, values = random_sparse(rows, columns, density)
    right = torch.randn(columns, width, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert_close(csr_matmul(values, pattern, right), dense_of(mask, values) @ right)
    # The derivative of a random function of the product, by both ways.
    weight = torch.randn(rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    values.requires_grad_()
    right.requires_grad_()
    ours = torch.autograd.grad((csr_matmul(values, pattern, right) * weight).sum(), (values, right))
    expected = torch.autograd.grad(((dense_of(mask, values) @ right) * weight).sum(), (values, right))
    for got, want in zip(ours, expected, strict=True):
        assert_close(got, want)


def test_gradcheck_with_a_transposed_dense_factor():
    _, pattern, values = random_sparse(4, 5, 0.5)
    right = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.autograd.gradcheck(
        lambda v, d: csr_matmul(v, pattern, d.mT), (values.requires_grad_(), right.requires_grad_())
    )


def test_transposed_pattern():
    mask, pattern, values = random_sparse(4, 6, 0.4)
    product = csr_matmul(values[pattern.by_column], pattern.transposed(), torch.eye(4, dtype=torch.float64))
    assert_close(product, dense_of(mask, values).mT)
    assert all(torch.equal(a, b) for a, b in zip(pattern.transposed().transposed()[:-1], pattern[:-1], strict=True))
