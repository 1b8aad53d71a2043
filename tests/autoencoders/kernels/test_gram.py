"""The Gram matrix of the atoms and its hand-written gradient."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from quadric.autoencoders.kernels.gram import atom_gram
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401


def plain(left, right, symmetric):
    straight = (left @ left.mT) * (right @ right.mT)
    return (straight + (left @ right.mT) * (right @ left.mT)) / 2 if symmetric else straight


@DTYPES
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("h", [1, 3, 8, 25])
def test_value_and_gradient_match_plain_autograd(h, symmetric, dtype, small_blocks):  # noqa: F811
    left, right = random(h, 5, dtype=dtype), random(h, 5, dtype=dtype, seed=1)
    assert_same(lambda a, b: atom_gram(a, b, symmetric), lambda a, b: plain(a, b, symmetric), left, right)


@DTYPES
def test_they_match_in_the_blocks_of_real_sizes(dtype):
    left, right = (random(700, 24, dtype=dtype, seed=seed) / 24**0.5 for seed in (0, 1))
    assert_same(atom_gram, lambda a, b: plain(a, b, True), left, right)


def test_gradcheck_of_tied_factors(small_blocks):  # noqa: F811
    assert torch.autograd.gradcheck(lambda a: atom_gram(a, a), random(7, 3).requires_grad_())


def test_it_multiplies_less_than_two_thirds_of_plain_autograd():
    h, d = 2048, 8
    counts = []
    for gram in (atom_gram, lambda a, b: plain(a, b, True)):
        left, right = (random(h, d, dtype=torch.float32, seed=seed).requires_grad_() for seed in (0, 1))
        with FlopCounterMode(display=False) as counter:
            gram(left, right).sum().backward()
        counts.append(counter.get_total_flops() / (2 * h * h * d))
    assert counts[1] == pytest.approx(12)
    assert counts[0] == pytest.approx((4 + 2) * 9 / 16 + 4)
