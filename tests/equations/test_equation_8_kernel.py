"""Equation 8: K = WWᵀ from the factors. The paper prints Cᵀ(LLᵀ∘RRᵀ)C; what composes and is symmetric is CGCᵀ."""

import pytest
import torch
from torch.testing import assert_close

from tests import naive, zoo


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_the_kernel_is_the_gram_matrix_of_the_decoder_forms(variety):
    ae = zoo.make(variety)
    forms = naive.forms(ae)
    assert_close(ae.kernel(), torch.einsum("ade,bde->ab", forms, forms).detach())


def test_the_printed_order_does_not_compose():
    ae = zoo.make("quadratic printed")
    gram = (ae.left @ ae.left.mT) * (ae.right @ ae.right.mT)
    mixing = ae.mixing.weight
    assert_close(ae.kernel(), (mixing @ gram @ mixing.mT).detach())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        mixing.mT @ gram @ mixing


def test_the_symmetric_kernel_is_half_straight_half_crossed():
    ae = zoo.make("atomic")
    straight = (ae.left @ ae.left.mT) * (ae.right @ ae.right.mT)
    crossed = (ae.left @ ae.right.mT) * (ae.right @ ae.left.mT)
    assert_close(ae.kernel(), ((straight + crossed) / 2).detach())


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_the_kernel_is_symmetric_and_positive_semidefinite(variety):
    kernel = zoo.make(variety).kernel()
    assert_close(kernel, kernel.mT)
    assert torch.linalg.eigvalsh(kernel).min() > -1e-12
