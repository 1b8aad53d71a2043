"""The encoder: z_i = xᵀLᵀ diag(c_i) R x = ⟨W_i, X⟩ with X = xxᵀ."""

import pytest
import torch
from torch.testing import assert_close

from tests import naive, zoo


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_latents_are_inner_products_with_the_lifted_token(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    encoded = ae.encode(x)
    assert_close(encoded, naive.latents(ae, x))
    mixing, x = naive.mixing_matrix(ae), ae.lens(x)
    printed = torch.stack([((x @ ae.left.mT) * row * (x @ ae.right.mT)).sum(-1) for row in mixing], dim=-1)
    assert_close(encoded, printed)


def test_latents_are_linear_in_the_product_space_and_quadratic_in_the_token():
    ae, x = zoo.make("quadratic"), zoo.tokens()
    assert_close(ae.encode(3 * x), 9 * ae.encode(x))


def test_latents_are_signed():
    latents = zoo.make("quadratic").encode(zoo.tokens())
    assert (latents < 0).any()
    assert (latents > 0).any()


def test_gated_linear_unit_without_its_gate():
    """C(Lx ∘ Rx) is what a GLU computes once σ is the identity."""
    ae, x = zoo.make("quadratic"), zoo.tokens()
    unit = torch.nn.functional.linear(x @ ae.left.mT * (x @ ae.right.mT), ae.mixing.weight)
    assert_close(ae.encode(x), unit)
