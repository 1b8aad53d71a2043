"""The Gram matrix of the atoms and the kernel of the latents, for dense and sparse C, with hand-written gradients."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from quadric.model import products
from quadric.model.fast import kernel
from quadric.model.fast.kernel import atom_gram, cross_gram, dense_kernel, kernel_overlap, sparse_kernel
from quadric.model.products import csr_pattern
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401


def plain(left, right, symmetric):
    straight = (left @ left.mT) * (right @ right.mT)
    return (straight + (left @ right.mT) * (right @ left.mT)) / 2 if symmetric else straight


@DTYPES
@pytest.mark.parametrize("most_kept", [0, kernel.MOST_KEPT])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("h", [1, 3, 8, 25])
def test_gram_and_gradient_match_plain_autograd(h, symmetric, most_kept, dtype, small_blocks, monkeypatch):  # noqa: F811
    monkeypatch.setattr(kernel, "MOST_KEPT", most_kept)
    left, right = random(h, 5, dtype=dtype), random(h, 5, dtype=dtype, seed=1)
    assert_same(lambda a, b: atom_gram(a, b, symmetric), lambda a, b: plain(a, b, symmetric), left, right)


@DTYPES
def test_gram_matches_in_the_blocks_of_real_sizes(dtype):
    left, right = (random(700, 24, dtype=dtype, seed=seed) / 24**0.5 for seed in (0, 1))
    assert_same(atom_gram, lambda a, b: plain(a, b, True), left, right)


def test_gradcheck_of_the_gram_matrix_of_the_same_factors(small_blocks):  # noqa: F811
    assert torch.autograd.gradcheck(lambda a: atom_gram(a, a), random(7, 3).requires_grad_())


@DTYPES
@pytest.mark.parametrize("h", [1, 3, 8, 25])
def test_gram_of_the_same_factors_matches_plain_autograd(h, dtype, small_blocks):  # noqa: F811
    assert_same(lambda a: atom_gram(a, a), lambda a: plain(a, a, True), random(h, 5, dtype=dtype))


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
    for gram in (atom_gram, lambda a, b: plain(a, b, True)):
        left, right = (random(h, d, dtype=torch.float32, seed=seed).requires_grad_() for seed in (0, 1))
        with FlopCounterMode(display=False) as counter:
            gram(left, right).sum().backward()
        counts.append(counter.get_total_flops() / (2 * h * h * d))
    assert counts[1] == pytest.approx(12)
    assert counts[0] == pytest.approx((4 + 2) * 9 / 16 + 4)


@pytest.mark.parametrize("symmetric", [True, False])
def test_cross_gram_of_a_dictionary_with_itself_is_its_gram(symmetric):
    left, right = random(6, 3), random(6, 3, seed=1)
    assert_close(cross_gram(left, right, left, right, symmetric), atom_gram(left, right, symmetric))


@DTYPES
@pytest.mark.parametrize(("k", "h"), [(1, 1), (4, 13), (13, 4), (24, 24)])
def test_dense_kernel_and_gradient_match_plain_autograd(k, h, dtype, small_blocks):  # noqa: F811
    weight, half = random(k, h, dtype=dtype), random(h, h, dtype=dtype, seed=1)
    assert_same(
        lambda c, m: dense_kernel(c, m + m.mT),
        lambda c, m: c @ (m + m.mT) @ c.mT,
        weight,
        half,
    )


@DTYPES
@pytest.mark.parametrize("columns_at_once", [2, 512])
def test_sparse_kernel_and_gradients_match_the_dense_one(columns_at_once, dtype, monkeypatch):
    monkeypatch.setattr(products, "COLUMNS_AT_ONCE", columns_at_once)
    mask = random(5, 9) > 0.3
    mask[:, [0, 4, 8]] = False
    pattern = csr_pattern(*mask.nonzero(as_tuple=True), tuple(mask.shape))
    values, half = random(int(mask.sum()), dtype=dtype), random(9, 9, dtype=dtype, seed=1)

    def dense(v, m):
        weight = torch.zeros(mask.shape, dtype=dtype).masked_scatter(mask, v)
        return weight @ (m + m.mT) @ weight.mT

    assert_same(lambda v, m: sparse_kernel(v, pattern, m + m.mT), dense, values, half)


def test_overlap_of_a_kernel_and_its_gradient():
    def plain_overlap(kernel):
        norms = kernel.diagonal().sqrt()
        squares = (kernel / norms[:, None] / norms).square()
        return (squares.sum() - squares.diagonal().sum()) / len(kernel)

    factor = random(9, 4)
    assert_same(lambda f: kernel_overlap(f @ f.mT)[None], lambda f: plain_overlap(f @ f.mT)[None], factor)


def test_an_empty_form_overlaps_nothing():
    kernel = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    overlap = kernel_overlap(kernel)
    assert overlap.item() == pytest.approx(2 / 3)  # one pair of copies, counted both ways, over three latents
    (gradient,) = torch.autograd.grad(overlap, kernel)
    assert gradient.isfinite().all()
    assert gradient[2].eq(0).all()
