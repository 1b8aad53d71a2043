"""Errors of given latents, in the lens's coordinates and of uuᵀ, against materialized matrices, on every way."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model import PlainStep
from quadric.model.fast.step import FastStep
from tests import naive, zoo
from tests.model.fast.test_step import BOTH, CASES, make, paths  # noqa: F401


@BOTH
@pytest.mark.parametrize(("variety", "way"), CASES)
def test_both_errors_and_their_gradients(variety, way, blocks):
    ae, x = make(variety, way), zoo.tokens(9).requires_grad_()
    leaves = [x, ae.left, ae.right]
    expected = naive.errors(ae, x)
    wanted = torch.autograd.grad(expected.sum(), leaves)
    for errors in (FastStep.errors_of, PlainStep.errors_of):
        unit = ae.prepare(x)
        found = errors(ae, unit, ae.encode_prepared(unit))
        assert_close(found.product_space, expected, rtol=1e-9, atol=1e-12)
        assert_close(found.objective, naive.objective(ae, x), rtol=1e-9, atol=1e-12)
        gradients = torch.autograd.grad(found.product_space.sum(), leaves)
        for got, want in zip(gradients, wanted, strict=True):
            assert float((got - want).norm()) <= 1e-8 * float(want.norm())
    assert_close(ae.error(x), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_errors_of_changed_latents_are_those_of_what_they_rebuild(variety):
    """Evaluation leaves latents out, and clamps them."""
    ae, unit = zoo.make(variety), zoo.make(variety).prepare(zoo.tokens(6))
    latents = ae.encode_prepared(unit) * (torch.arange(ae.n_latents) % 2)
    inputs = torch.nn.functional.normalize(naive.seen(ae, unit))
    residual = torch.einsum("nk,kde->nde", latents, naive.forms(ae)) - naive.lift(inputs)
    for errors in (FastStep.errors_of, PlainStep.errors_of):
        assert_close(errors(ae, unit, latents).objective, residual.square().sum((1, 2)))
