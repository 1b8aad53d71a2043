"""Forms as vectors of the product space; what a step computes with them is in test_step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.fast import lifted
from quadric.model.fast.lifted import (
    few_latents_form,
    form_norms,
    lifted_reconstruction,
    packed,
    packed_forms,
    product_width,
    unpacked,
)
from quadric.model.fast.step import FastStep, sparse_rows_of
from tests import naive
from tests.exactness import random
from tests.model.fast.test_step import SPARSE, make


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


@pytest.mark.parametrize("variety", SPARSE)
@pytest.mark.parametrize("numbers_at_once", [1, 2000, 2**22])
def test_forms_norms_and_reconstructions_are_the_materialized_ones(variety, numbers_at_once, monkeypatch):
    """One latent or token at a time, a few of them, and all."""
    monkeypatch.setattr(lifted, "NUMBERS_AT_ONCE", numbers_at_once)
    ae = make(variety).requires_grad_(False)
    forms, z = naive.forms(ae), random(6, ae.n_latents)
    given = (*FastStep.factors_of(ae, torch.float64), sparse_rows_of(ae.mixing, ae.left), ae.symmetric)
    some = torch.tensor([5, 0, 2])  # of the uneven dictionary the last one is empty
    assert_close(unpacked(packed_forms(some, *given), forms.shape[1], ae.symmetric), forms[some])
    assert_close(form_norms(*given), forms.flatten(1).norm(dim=1))
    rebuilt = torch.einsum("nk,kde->nde", z, forms)
    assert_close(unpacked(lifted_reconstruction(z, *given), forms.shape[1], ae.symmetric), rebuilt)
    indices = torch.tensor([[2, 2, 0]]).expand(6, -1).contiguous()  # a latent twice counts twice
    few = torch.einsum("nc,ncde->nde", z[:, :3], forms[indices])
    assert_close(few_latents_form(z[:, :3], indices, *given), few.square().sum((1, 2)))
