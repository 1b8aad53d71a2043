"""Latents made a few tokens at a time are those of dense products, and so are all their gradients."""

import pytest
import torch

from quadric.autoencoders.kernels import csr, sparse_latents
from quadric.autoencoders.kernels.csr import csr_pattern, sparse_kernel
from tests.exactness import DTYPES, assert_same, random

MASK = random(5, 9) > 0.3


def pattern():
    return csr_pattern(*MASK.nonzero(as_tuple=True), tuple(MASK.shape))


def dense_latents(tokens, left, right, values):
    weight = torch.zeros(MASK.shape, dtype=values.dtype).masked_scatter(MASK, values)
    return ((tokens @ left.mT) * (tokens @ right.mT)) @ weight.mT


def clever_latents(tokens, left, right, values):
    return sparse_latents.sparse_latents(tokens, left, right, values, pattern())


@DTYPES
@pytest.mark.parametrize("tokens_at_once", [1, 3, 4, 100])
def test_value_and_gradients_match_dense_products(tokens_at_once, dtype, monkeypatch):
    monkeypatch.setattr(sparse_latents, "TOKENS_AT_ONCE", tokens_at_once)
    inputs = (random(10, 6), random(9, 6, seed=1), random(9, 6, seed=2), random(int(MASK.sum()), seed=3))
    assert_same(clever_latents, dense_latents, *(each.to(dtype) for each in inputs))


@DTYPES
def test_the_kernel_is_the_same_in_narrow_strips(dtype, monkeypatch):
    monkeypatch.setattr(csr, "COLUMNS_AT_ONCE", 2)
    values, half = random(int(MASK.sum()), dtype=dtype), random(9, 9, dtype=dtype, seed=1)

    def dense(v, m):
        weight = torch.zeros(MASK.shape, dtype=dtype).masked_scatter(MASK, v)
        return weight @ (m + m.mT) @ weight.mT

    assert_same(lambda v, m: sparse_kernel(v, pattern(), m + m.mT), dense, values, half)
