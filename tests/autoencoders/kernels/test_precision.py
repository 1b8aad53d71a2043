"""Rounded gradient products, tried on the CPU: the error must not notice, the gradients hardly."""

import subprocess
import sys

import pytest
import torch

from quadric.autoencoders.kernels import precision
from tests import zoo


def loss_and_gradients(variety):
    ae = zoo.make(variety, torch.float32)
    terms = ae.loss(zoo.tokens(200, dtype=torch.float32))
    terms.total.backward()
    return terms, [ae.left.grad, ae.right.grad]


@pytest.mark.parametrize("variety", ["atomic", "composite sparse storage", "quadratic", "atomic printed"])
def test_only_gradients_are_rounded(variety, monkeypatch):
    exact, gradients = loss_and_gradients(variety)
    monkeypatch.setattr(precision, "ROUNDED_ON", {"cpu"})
    terms, rounded = loss_and_gradients(variety)
    assert terms == exact
    for got, want in zip(rounded, gradients, strict=True):
        difference = (got - want).norm() / want.norm()
        assert 0 < difference < 2e-2


def test_double_precision_is_never_rounded(monkeypatch):
    monkeypatch.setattr(precision, "ROUNDED_ON", {"cpu"})
    target, left, right = torch.zeros(2, 2).double(), torch.rand(2, 3).double(), torch.rand(3, 2).double()
    precision.write_gradient_product(target, left, right)
    assert torch.equal(target, left @ right)


# In a process of its own: what checks the shapes of tensors in tests cannot be traced.
COMPILED = """
import torch
from tests import zoo
for variety in ("atomic", "composite sparse storage", "quadratic"):
    ae, x = zoo.make(variety), zoo.tokens()
    expected = ae.loss(x).total
    expected.backward()
    gradient = ae.left.grad.clone()
    ae.zero_grad()
    got = torch.compile(ae.loss, backend="eager")(x).total
    got.backward()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(ae.left.grad, gradient)
    print(variety, "agrees")
"""


@pytest.mark.slow
def test_a_compiled_loss_is_the_same_loss():
    """With the eager backend, which needs no compiler: what can be traced is traced, and means the same."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    assert done.stdout.count("agrees") == 3, done.stderr
