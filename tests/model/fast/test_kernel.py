"""What hand-written kernels save, and where they differ from plain products; values and gradients are in test_step."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import kernel
from quadric.model.fast.kernel import atom_gram, cross_gram, kernel_overlap
from quadric.model.step import plain_gram
from tests.exactness import DTYPES, assert_same, random


@DTYPES
@pytest.mark.parametrize("symmetric", [True, False])
def test_gram_matches_in_the_blocks_of_real_sizes(symmetric, dtype):
    left, right = (random(700, 24, dtype=dtype, seed=seed) / 24**0.5 for seed in (0, 1))
    assert_same(lambda a, b: atom_gram(a, b, symmetric), lambda a, b: plain_gram(a, b, symmetric), left, right)
    assert_same(lambda a: atom_gram(a, a), lambda a: plain_gram(a, a, True), left)
    assert_close(cross_gram(left, right, left, right, symmetric), plain_gram(left, right, symmetric))


def test_kept_overlaps_change_no_bit_and_save_a_product(monkeypatch):
    left, right = (random(600, 8, dtype=torch.float32, seed=seed).requires_grad_() for seed in (0, 1))
    found, counts = [], []
    for most_kept in (0, kernel.MOST_KEPT):
        monkeypatch.setattr(kernel, "MOST_KEPT", most_kept)
        with FlopCounterMode(display=False) as counter:
            gram = atom_gram(left, right)
            found.append((gram.detach(), *torch.autograd.grad(gram.square().sum(), (left, right))))
        counts.append(counter.get_total_flops())
    assert all(map(torch.equal, *found))
    assert counts[1] < 0.9 * counts[0]


def test_gram_multiplies_less_than_two_thirds_of_plain_autograd(monkeypatch):
    monkeypatch.setattr(kernel, "MOST_KEPT", 0)
    h, d = 2048, 8
    counts = []
    for gram in (atom_gram, lambda a, b: plain_gram(a, b, True)):
        left, right = (random(h, d, dtype=torch.float32, seed=seed).requires_grad_() for seed in (0, 1))
        with FlopCounterMode(display=False) as counter:
            gram(left, right).sum().backward()
        counts.append(counter.get_total_flops() / (2 * h * h * d))
    assert counts[1] == pytest.approx(12)
    assert counts[0] == pytest.approx((4 + 2) * 9 / 16 + 4)


def test_an_empty_form_overlaps_nothing():
    pairs = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    overlap = kernel_overlap(pairs)
    assert overlap.item() == pytest.approx(2 / 3)  # one pair of copies, counted both ways, over three latents
    (gradient,) = torch.autograd.grad(overlap, pairs)
    assert gradient.isfinite().all()
    assert gradient[2].eq(0).all()
