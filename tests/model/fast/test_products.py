"""Symmetric, rounded and sparse products against plain dense ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import products
from quadric.model.fast.products import (
    block_pairs,
    csr_matmul,
    csr_pattern,
    row_blocks,
    slices,
    symmetric_product,
    weighted_gram,
)
from tests import fresh_process, zoo
from tests.exactness import DTYPES, TOLERANCE, random


@DTYPES
@pytest.mark.parametrize("rows", [1, 7, 520, 1100])
def test_a_symmetric_product_is_the_whole_product(rows, dtype):
    matrix, weights = random(rows, 20, dtype=dtype), random(20, dtype=dtype, seed=1)
    tolerance = {"rtol": 0, "atol": 20 * TOLERANCE[dtype]}
    assert_close(symmetric_product(matrix, matrix.mT), matrix @ matrix.mT, **tolerance)
    assert_close(weighted_gram(matrix, weights), matrix * weights @ matrix.mT, **tolerance)


def test_commuting_symmetric_factors_have_a_symmetric_product():
    matrix = random(600, 600)
    matrix = (matrix + matrix.mT) / 600
    square = matrix @ matrix
    assert_close(symmetric_product(matrix, square), matrix @ square, rtol=0, atol=1e-10)


def test_symmetric_products_save_seven_sixteenths():
    matrix = random(2048, 4, dtype=torch.float32)
    with FlopCounterMode(display=False) as upper:
        symmetric_product(matrix, matrix.mT)
    with FlopCounterMode(display=False) as whole:
        matrix @ matrix.mT
    assert upper.get_total_flops() / whole.get_total_flops() == pytest.approx(9 / 16)


@given(size=st.integers(1, 5000))
def test_row_blocks_cover_every_row_once_in_at_most_eight_blocks(size):
    blocks = row_blocks(size)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(size))
    assert len(blocks) <= 8
    assert slices(size, size) == [slice(0, size)]


@given(size=st.integers(1, 40), block_size=st.integers(1, 50))
def test_block_pairs_cover_the_upper_triangle_once(size, block_size):
    seen = torch.zeros(size, size, dtype=torch.long)
    for rows, columns in block_pairs(size, block_size):
        seen[rows, columns] += 1
        if rows != columns:
            seen[columns, rows] += 1
    assert (seen == 1).all()


def random_sparse(rows: int, columns: int, density: float):
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows + 7 * columns)) < density
    pattern = csr_pattern(*mask.nonzero(as_tuple=True), (rows, columns))
    values = torch.randn(int(mask.sum()), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return mask, pattern, values


def dense_of(mask, values):
    return torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)


@settings(max_examples=40)
@given(
    rows=st.integers(1, 6), columns=st.integers(1, 6), width=st.integers(1, 4), density=st.sampled_from([0.0, 0.3, 1.0])
)
def test_product_and_gradients_match_dense(rows, columns, width, density):
    mask, pattern, values = random_sparse(rows, columns, density)
    right = torch.randn(columns, width, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert_close(csr_matmul(values, pattern, right), dense_of(mask, values) @ right)
    # The derivative of a random function of the product, computed both ways.
    weight = torch.randn(rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    values.requires_grad_()
    right.requires_grad_()
    ours = torch.autograd.grad((csr_matmul(values, pattern, right) * weight).sum(), (values, right))
    expected = torch.autograd.grad(((dense_of(mask, values) @ right) * weight).sum(), (values, right))
    for got, want in zip(ours, expected, strict=True):
        assert_close(got, want)
    again = pattern.transposed().transposed()
    assert all(torch.equal(one, other) for one, other in zip(again[:-1], pattern[:-1], strict=True))


def test_gradcheck_with_a_transposed_dense_factor():
    _, pattern, values = random_sparse(4, 5, 0.5)
    right = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.autograd.gradcheck(
        lambda v, d: csr_matmul(v, pattern, d.mT), (values.requires_grad_(), right.requires_grad_())
    )


def loss_and_gradients(variety, dtype):
    ae = zoo.make(variety, torch.float32)
    terms = ae.loss(zoo.tokens(200, dtype=torch.float32))
    with products.gradient_products_in(dtype):
        terms.total.backward()
    return terms, [parameter.grad for parameter in ae.parameters() if parameter.ndim == 2]  # L, R and dense C


@pytest.mark.parametrize("variety", ["atomic", "composite sparse storage", "quadratic", "atomic printed"])
def test_only_gradients_are_rounded(variety):
    exact, gradients = loss_and_gradients(variety, "float32")
    terms, rounded = loss_and_gradients(variety, "bfloat16")
    assert terms == exact
    for got, want in zip(rounded, gradients, strict=True):
        difference = (got - want).norm() / want.norm()
        assert 0 < difference < 2e-2


def test_by_default_a_cpu_rounds_nothing():
    (_, exact), (_, default) = (loss_and_gradients("atomic", dtype) for dtype in ("float32", "auto"))
    assert all(map(torch.equal, exact, default))


def test_double_precision_is_never_rounded():
    target, left, right = torch.zeros(2, 2).double(), torch.rand(2, 3).double(), torch.rand(3, 2).double()
    with products.gradient_products_in("bfloat16"):
        products.write_gradient_product(target, left, right)
    assert torch.equal(target, left @ right)


def test_an_error_in_a_backward_pass_ends_the_rounding():
    target, left, right = torch.zeros(2, 2), torch.rand(2, 3), torch.rand(3, 2)
    with pytest.raises(RuntimeError, match="interrupted"), products.gradient_products_in("bfloat16"):
        raise RuntimeError("interrupted")
    products.write_gradient_product(target, left, right)
    assert torch.equal(target, left @ right)


# In a process of its own: the shape checks that tests install cannot be traced.
COMPILED = """
import torch
from tests import zoo
for variety in ("atomic", "composite sparse storage", "quadratic"):
    ae, x = zoo.make(variety), zoo.tokens()
    expected = ae.loss(x).total
    expected.backward()
    gradient = ae.left.grad.clone()
    ae.zero_grad()
    got = torch.compile(ae.loss, backend="eager")(x).total
    got.backward()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(ae.left.grad, gradient)
    print(variety, "agrees")
"""


@pytest.mark.slow
def test_a_compiled_loss_is_the_same_loss():
    """With the eager backend, which traces but needs no compiler."""
    done = fresh_process.run(COMPILED)
    assert done.stdout.count("agrees") == 3, done.stderr
