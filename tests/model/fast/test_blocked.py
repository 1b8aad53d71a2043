"""The blocked quadratic form against the one with the whole Gram matrix."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.fast.blocked import blocked_quadratic_form
from quadric.model.fast.kernel import atom_gram
from tests.exactness import random


@settings(max_examples=40)
@given(
    n=st.integers(1, 4), h=st.integers(1, 7), d=st.integers(1, 4), block_size=st.integers(1, 8), symmetric=st.booleans()
)
def test_value_and_gradient_are_right(n, h, d, block_size, symmetric):
    weights, left, right = (random(*shape, seed=i).requires_grad_() for i, shape in enumerate([(n, h), (h, d), (h, d)]))

    def blocked(*inputs):
        return blocked_quadratic_form(*inputs, symmetric, block_size)

    whole = ((weights @ atom_gram(left, right, symmetric)) * weights).sum(-1)
    assert_close(blocked(weights, left, right), whole)
    assert torch.autograd.gradcheck(blocked, (weights, left, right))


def test_block_size_must_be_positive():
    with pytest.raises(ValueError, match="block_size=0"):
        blocked_quadratic_form(random(1, 1), random(1, 1), random(1, 1), True, 0)
