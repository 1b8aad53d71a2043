"""The answers of atoms to tokens, in blocks of atoms."""

import pytest
import torch

from quadric.autoencoders.kernels import atoms
from quadric.autoencoders.kernels.atoms import atom_values
from tests.exactness import DTYPES, assert_same, random


@DTYPES
@pytest.mark.parametrize(("n", "h"), [(1, 1), (6, 4), (5, 11)])
def test_values_and_all_three_gradients_match_plain_autograd(n, h, dtype, monkeypatch):
    monkeypatch.setattr(atoms, "ROWS_AT_ONCE", 4)
    inputs = (random(n, 3, dtype=dtype), random(h, 3, dtype=dtype, seed=1), random(h, 3, dtype=dtype, seed=2))
    assert_same(atom_values, lambda x, left, right: (x @ left.mT) * (x @ right.mT), *inputs)


def test_tied_factors_get_both_shares():
    factor = random(6, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: atom_values(random(4, 3, seed=1), f, f), factor)
