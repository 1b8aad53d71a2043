"""Symmetric products by halves against whole ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from quadric.autoencoders.kernels.symmetric import row_blocks, slices, symmetric_product, weighted_gram
from tests.exactness import DTYPES, TOLERANCE, random


@DTYPES
@pytest.mark.parametrize("rows", [1, 7, 520, 1100])
def test_a_product_by_halves_is_the_whole_product(rows, dtype):
    matrix, weights = random(rows, 20, dtype=dtype), random(20, dtype=dtype, seed=1)
    tolerance = {"rtol": 0, "atol": 20 * TOLERANCE[dtype]}
    assert_close(symmetric_product(matrix, matrix.mT), matrix @ matrix.mT, **tolerance)
    assert_close(weighted_gram(matrix, weights), matrix * weights @ matrix.mT, **tolerance)


def test_commuting_symmetric_factors_have_a_symmetric_product():
    matrix = random(600, 600)
    matrix = (matrix + matrix.mT) / 600
    square = matrix @ matrix
    assert_close(symmetric_product(matrix, square), matrix @ square, rtol=0, atol=1e-10)


def test_it_saves_what_it_says():
    matrix = random(2048, 4, dtype=torch.float32)
    with FlopCounterMode(display=False) as halves:
        symmetric_product(matrix, matrix.mT)
    with FlopCounterMode(display=False) as whole:
        matrix @ matrix.mT
    assert halves.get_total_flops() / whole.get_total_flops() == pytest.approx(9 / 16)


@settings(deadline=None)
@given(size=st.integers(1, 5000))
def test_row_blocks_cover_every_row_once_in_at_most_eight_blocks(size):
    blocks = row_blocks(size)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(size))
    assert len(blocks) <= 8
    assert slices(size, size) == [slice(0, size)]
