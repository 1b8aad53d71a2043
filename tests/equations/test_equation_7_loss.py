"""Equation 7: ‖X̂ − X‖²/‖X‖² = (zᵀKz − 2‖z‖² + ‖X‖²)/‖X‖², and how the printed pseudocode departs from it."""

import pytest
import torch
from torch.testing import assert_close

from tests import naive, zoo


@pytest.mark.parametrize("variety", zoo.PAPER)
def test_the_expansion_is_an_identity(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    z, energy = ae.encode(x), x.square().sum(-1).square()
    forms = naive.forms(ae)
    kernel = torch.einsum("ade,bde->ab", forms, forms)
    expanded = (torch.einsum("na,ab,nb->n", z, kernel, z) - 2 * z.square().sum(-1) + energy) / energy
    assert_close(expanded, naive.errors(ae, x))
    assert_close(ae.error(x), expanded)


def printed_pseudocode(ae, acts):
    """The appendix's forward pass, its broadcast and its normalizer included."""
    z = (acts @ ae.left.mT) * (acts @ ae.right.mT)
    kernel = (ae.left @ ae.left.mT) * (ae.right @ ae.right.mT)
    recons, cross = ((z @ kernel) * z).sum(-1), z.square().sum(-1)
    target = acts.square().sum(-1, keepdim=True)
    return ((recons - 2 * cross + target) / target).mean()


def test_the_pseudocode_is_the_printed_kernel_on_unit_tokens():
    ae, x = zoo.make("atomic printed"), zoo.tokens()
    unit = x / x.norm(dim=-1, keepdim=True)
    assert_close(ae.loss(x, 0.0).error, printed_pseudocode(ae, unit))


def test_the_pseudocode_needs_unit_tokens():
    """It divides by ‖x‖² instead of ‖x‖⁴ and pairs every token with every norm, so other scales give wrong errors."""
    ae, x = zoo.make("atomic printed"), zoo.tokens()
    assert abs(printed_pseudocode(ae, x) / ae.loss(x, 0.0).error - 1) > 0.1


def test_the_error_is_1_for_zero_latents_and_never_negative():
    ae, x = zoo.make("quadratic"), zoo.tokens()
    assert (ae.error(x) > 0).all()
    with torch.no_grad():
        ae.mixing.weight.zero_()
    assert_close(ae.error(x), torch.ones(len(x), dtype=torch.float64))
