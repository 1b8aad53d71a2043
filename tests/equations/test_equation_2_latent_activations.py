"""Equation 2: a linear latent is a thresholded projection, an atomic one a squared projection ⟨wwᵀ, X⟩."""

import torch
from torch.testing import assert_close

from quadric import TopKAutoencoder
from tests import naive, zoo


def test_linear_latents_are_rectified_projections():
    ae, x = TopKAutoencoder(d_model=12, n_latents=7, n_active=7, dtype=torch.float64), zoo.tokens()
    assert_close(ae.encode(x), torch.relu(x @ ae.encoder.mT))


def test_atomic_latents_of_the_same_factors_are_squared_projections():
    ae, x = zoo.make("atomic same factors"), zoo.tokens()
    assert_close(ae.encode(x), (x @ ae.left.mT).square())
    outer = ae.left[:, :, None] * ae.left[:, None, :]
    assert_close(ae.encode(x), torch.einsum("kde,nde->nk", outer, naive.lift(x)))
