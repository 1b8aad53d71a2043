"""Reconstructions in the product space against the kernel K = CGCᵀ, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.fast import lifted
from quadric.model.fast.kernel import atom_gram
from quadric.model.fast.lifted import (
    SparseRows,
    few_latents_form,
    form_norms,
    lifted_reconstruction,
    packed,
    product_width,
    unpacked,
)
from quadric.model.products import CsrPattern, csr_pattern
from tests.exactness import DTYPES, assert_same, random

K, U, W, N = 9, 14, 4, 6
SYMMETRIC = pytest.mark.parametrize("symmetric", [True, False])


@pytest.fixture(autouse=True, params=[1, 150, 2**22])
def numbers_at_once(request, monkeypatch):
    """One latent or token at a time, a few of them, and all."""
    monkeypatch.setattr(lifted, "NUMBERS_AT_ONCE", request.param)


def uneven_pattern(k: int = K, u: int = U, seed: int = 0) -> CsrPattern:
    """Rows of very different lengths, the first and the last empty."""
    matrix = random(k, u, seed=seed) > torch.linspace(-1, 2, k)[:, None]
    matrix[[0, -1]] = False
    return csr_pattern(*matrix.nonzero(as_tuple=True), (k, u))


def mixing_of(values: torch.Tensor, pattern: CsrPattern) -> torch.Tensor:
    rows = torch.repeat_interleave(torch.arange(pattern.shape[0]), pattern.row_starts.diff())
    return values.new_zeros(pattern.shape).index_put((rows, pattern.columns), values)


def kernel_of(left, right, values, pattern, symmetric):
    mixing = mixing_of(values, pattern)
    return mixing @ atom_gram(left, right, symmetric) @ mixing.mT


def factors_and_values(pattern: CsrPattern, dtype=torch.float64):
    values = random(len(pattern.columns), dtype=dtype, seed=3)
    return random(U, W, dtype=dtype, seed=1), random(U, W, dtype=dtype, seed=2), values


@SYMMETRIC
@DTYPES
def test_norms_are_those_of_the_kernel(dtype, symmetric):
    pattern = uneven_pattern()
    left, right, values = factors_and_values(pattern, dtype)
    expected = kernel_of(left, right, values, pattern, symmetric).diagonal().clamp(min=0).sqrt()
    assert (expected[[0, -1]] == 0).all()
    assert_close(form_norms(left, right, SparseRows(values, pattern), symmetric), expected)


@SYMMETRIC
@DTYPES
def test_the_form_of_a_few_latents_is_that_of_the_kernel(dtype, symmetric):
    pattern = uneven_pattern()
    indices = torch.stack([torch.randperm(K, generator=torch.Generator().manual_seed(i))[:3] for i in range(N)])
    indices[0] = torch.tensor([0, K - 1, 0])  # nothing but empty latents, one of them twice

    def naive(chosen, left, right, values):
        kept = chosen.new_zeros(N, K).index_put((torch.arange(N)[:, None].expand(-1, 3), indices), chosen, True)
        return ((kept @ kernel_of(left, right, values, pattern, symmetric)) * kept).sum(-1)

    def fast(chosen, left, right, values):
        return few_latents_form(chosen, indices, left, right, SparseRows(values, pattern), symmetric)

    inputs = (random(N, 3, dtype=dtype, seed=4), *factors_and_values(pattern, dtype))
    assert_same(fast, naive, *inputs)
    if dtype == torch.float64:
        assert torch.autograd.gradcheck(fast, [each.requires_grad_() for each in inputs])


@SYMMETRIC
@DTYPES
def test_the_reconstruction_has_the_norm_and_gradients_that_the_kernel_gives(dtype, symmetric):
    pattern = uneven_pattern()

    def naive(latents, left, right, values):
        return ((latents @ kernel_of(left, right, values, pattern, symmetric)) * latents).sum(-1)

    def fast(latents, left, right, values):
        found = lifted_reconstruction(latents, left, right, SparseRows(values, pattern), symmetric)
        assert found.shape == (N, product_width(W, symmetric))
        return found.square().sum(-1)

    assert_same(fast, naive, random(N, K, dtype=dtype, seed=4), *factors_and_values(pattern, dtype))


@SYMMETRIC
def test_the_reconstruction_is_the_sum_of_the_forms(symmetric):
    pattern = uneven_pattern()
    left, right, values = factors_and_values(pattern)
    latents = random(N, K, seed=4)
    found = lifted_reconstruction(latents, left, right, SparseRows(values, pattern), symmetric)
    sums = torch.einsum("nk,kh,hd,he->nde", latents, mixing_of(values, pattern), left, right)
    assert_close(unpacked(found, W, symmetric), (sums + sums.mT) / 2 if symmetric else sums)


def test_the_same_factors_get_the_gradient_of_both():
    pattern = uneven_pattern()
    left, _, values = factors_and_values(pattern)
    indices = torch.arange(N)[:, None] + torch.arange(2)

    def naive(chosen, left, values):
        kept = chosen.new_zeros(N, K).scatter(1, indices, chosen)
        return ((kept @ kernel_of(left, left, values, pattern, True)) * kept).sum(-1)

    def fast(chosen, left, values):
        return few_latents_form(chosen, indices, left, left, SparseRows(values, pattern))

    assert_same(fast, naive, random(N, 2, seed=4), left, values)


@settings(max_examples=30)
@given(b=st.integers(0, 3), w=st.integers(1, 6), symmetric=st.booleans())
def test_packing_keeps_inner_products_and_can_be_undone(b, w, symmetric):
    one, other = random(b, w, w, seed=1), random(b, w, w, seed=2)
    if symmetric:
        one, other = one + one.mT, other + other.mT
    vectors = packed(one, symmetric)
    assert vectors.shape == (b, product_width(w, symmetric))
    assert_close(vectors @ packed(other, symmetric).mT, one.flatten(1) @ other.flatten(1).mT)
    assert_close(unpacked(vectors, w, symmetric), one)
