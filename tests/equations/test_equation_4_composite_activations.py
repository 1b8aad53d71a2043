"""Equation 4: a composite latent is a weighted sum of squared projections onto the eigenvectors of W_i."""

import torch
from torch.testing import assert_close

from tests import zoo


def test_composite_latents_are_weighted_sums_of_squares():
    ae, x = zoo.make("composite sparse storage"), zoo.tokens()
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.stack([ae.form(i) for i in range(ae.n_latents)]))
    projections = torch.einsum("nd,kdr->nkr", x, eigenvectors)
    assert_close(ae.encode(x), (eigenvalues * projections.square()).sum(-1))


def test_the_rank_is_at_most_twice_the_support():
    ae = zoo.make("composite sparse storage")
    for i in range(ae.n_latents):
        support = len(ae.mixing.row(i).atoms)
        assert torch.linalg.matrix_rank(ae.form(i)) <= min(2 * support, ae.d_model)
