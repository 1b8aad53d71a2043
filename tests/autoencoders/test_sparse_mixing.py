"""Leaving out the atoms that no latent uses changes nothing."""

import pytest
import torch
from torch.testing import assert_close

from quadric.autoencoders.kernels.csr import csr_pattern, sparse_kernel
from quadric.autoencoders.mixing import Composite
from quadric.autoencoders.sparse_mixing import live_pattern
from tests import zoo
from tests.exactness import DTYPES, assert_same, random


def pattern_of(mask):
    return csr_pattern(*mask.nonzero(as_tuple=True), tuple(mask.shape))


def some_mask(rows=5, columns=9):
    mask = random(rows, columns) > 0.3
    mask[:, [0, 4, columns - 1]] = False
    return mask


@DTYPES
def test_the_sparse_kernel_and_its_gradients_match_the_dense_one(dtype):
    mask = some_mask()
    values, half = random(int(mask.sum()), dtype=dtype), random(9, 9, dtype=dtype, seed=1)

    def dense(v, m):
        weight = torch.zeros(mask.shape, dtype=dtype).masked_scatter(mask, v)
        return weight @ (m + m.mT) @ weight.mT

    assert_same(lambda v, m: sparse_kernel(v, pattern_of(mask), m + m.mT), dense, values, half)


def test_live_columns_are_those_with_entries_in_their_order():
    mask = some_mask()
    atoms, pattern = live_pattern(pattern_of(mask))
    assert atoms.tolist() == mask.any(0).nonzero()[:, 0].tolist()
    expected = pattern_of(mask[:, atoms])
    for got, want in zip(pattern, expected, strict=True):
        assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want


@DTYPES
@pytest.mark.parametrize("symmetric", [True, False])
def test_an_autoencoder_gives_the_same_loss_and_gradients_with_all_atoms(symmetric, dtype, monkeypatch):
    variety = "composite sparse storage" if symmetric else "composite sparse printed"
    x, results = zoo.tokens(dtype=dtype), []
    for everything in (False, True):
        ae = zoo.make(variety, dtype)
        assert len(ae.mixing.live()[0]) < ae.n_hidden
        if everything:
            monkeypatch.setattr(Composite, "live", lambda mixing: (None, mixing))
        ae.loss(x).total.backward()
        results.append([ae.loss(x).total, *(parameter.grad for parameter in ae.parameters())])
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5}[dtype]
    for got, want in zip(*results, strict=True):
        assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_the_live_atoms_follow_a_loaded_pattern():
    one, other = (Composite(random(8, 40, seed=seed), 0.009) for seed in (0, 1))
    before = one.live()[0]
    one.load_state_dict(other.state_dict())
    assert torch.equal(one.live()[0], other.live()[0])
    assert not torch.equal(one.live()[0], before)
