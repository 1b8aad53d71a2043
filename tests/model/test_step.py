"""What terms ask for, on the plain step, against the materialized d×d forms; and how terms make a loss."""

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric.model import Density, Error, Mean, Overlap, PlainStep, SquaredError, Step, Term, values_of
from quadric.model.processes import ALONE
from tests import naive, zoo


class Large(Term):
    """On tokens."""

    name = "large"

    def __call__(self, step):
        return step.mean(step.z.abs().amax(1))


class Alike(Term):
    """On weights."""

    name = "alike"
    needs = ("kernel",)

    def __call__(self, step):
        return step.kernel.square().mean()


TERMS = {
    "error": (Error(), lambda ae, x: naive.objective(ae, x).mean()),
    "error of the strongest": (Error(top=3), lambda ae, x: naive.objective(ae, x, top=3).mean()),
    "error of more than all": (Error(top=100), lambda ae, x: naive.objective(ae, x).mean()),
    "density": (Density(0.3), naive.density),
    "overlap": (Overlap(0.1), lambda ae, x: naive.overlap(ae)),
    "mean": (Mean(0.5), naive.mean_error),
    "own on tokens": (Large(0.2), lambda ae, x: naive.unit_latents(ae, x).abs().amax(1).mean()),
    "own on weights": (Alike(0.2), lambda ae, x: (naive.forms(ae).flatten(1) @ naive.forms(ae).flatten(1).mT)
                       .square().mean()),
}  # fmt: skip


def gradients(value: torch.Tensor, ae: torch.nn.Module) -> list[torch.Tensor]:
    """Of all parameters, zero where the value does not depend on one."""
    found = torch.autograd.grad(value, list(ae.parameters()), allow_unused=True)
    return [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(ae.parameters(), found, strict=True)
    ]


def assert_same_gradients(ours: torch.Tensor, expected: torch.Tensor, ae: torch.nn.Module, tolerance: float) -> None:
    for got, want in zip(gradients(ours, ae), gradients(expected, ae), strict=True):
        assert float((got - want).norm()) <= tolerance * float(want.norm()) + 1e-14


@pytest.mark.parametrize("variety", zoo.VARIETIES)
@pytest.mark.parametrize("term", TERMS)
def test_a_plain_term_and_its_gradients_are_those_of_the_materialized_forms(variety, term):
    ae, x = zoo.make(variety), zoo.tokens()
    ours, expected = TERMS[term][0](PlainStep(ae, x)), TERMS[term][1](ae, x)
    assert_close(ours, expected, rtol=1e-10, atol=0)
    assert_same_gradients(ours, expected, ae, 1e-9)


def test_a_loss_is_the_weighted_sum_of_its_terms_and_values_are_unweighted():
    ae, x = zoo.make("quadratic"), zoo.tokens()
    total, values = values_of((Error(), Density(0.3, warmup=4), Overlap(0.1)), PlainStep(ae, x, index=1, steps=8))
    assert list(values) == ["error", "density", "overlap"]
    assert_close(total, values["error"] + 0.3 / 4 * values["density"] + 0.1 * values["overlap"])


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("loss", [(Density(0.0), Mean(0.0), Error(top=3)), (Error(top=3), Mean(0.0), Density(0.0))])
def test_terms_without_weight_are_reported_and_take_no_part_in_the_gradient_whatever_their_order(loss, plain):
    ae, x = zoo.make("composite sparse affine"), zoo.tokens()
    total, values = values_of(loss, PlainStep(ae, x) if plain else ae.step(x, loss))
    assert values.keys() == {"error", "density", "mean"}
    assert_close(values["density"], naive.density(ae, x))
    assert not values["mean"].requires_grad
    assert_same_gradients(total, naive.objective(ae, x, top=3).mean(), ae, 1e-9)
    nothing, reported = values_of((Error(0.0),), ae.step(x))
    assert (nothing.item(), reported.keys()) == (0, {"error"})


def test_a_term_that_returns_no_scalar_is_named():
    class Odd(Term):
        name = "odd"

        def __call__(self, step):
            return step.z.sum(0) if self.weight == 1 else 3.0

    for weight, words in ((1.0, r"of shape \(24,\)"), (2.0, "3.0")):
        with pytest.raises(ValueError, match=f"the term 'odd' returned {words}, not a scalar tensor; return e.g."):
            values_of((Odd(weight),), zoo.make("atomic").step(zoo.tokens()))


@pytest.mark.parametrize("kind", [quadric.TopK, quadric.BatchTopK])
def test_a_linear_kind_answers_what_needs_no_forms(kind):
    ae, x = kind(n_latents=40, n_active=5).build(12).double(), zoo.tokens()
    step = ae.step(x)
    assert type(step) is Step
    assert_close(step.prepared - step.residual, step.reconstruction)
    total, values = values_of(ae.settings.default_loss(), step)
    assert list(values) == ["squared_error", "error", "density"]
    assert_close(total, step.residual.square().sum(1).mean())
    exact = (naive.lift(step.prepared) - naive.lift(step.reconstruction)).square().sum((1, 2))
    assert_close(values["error"], exact.mean())
    for ask in (lambda: step.kernel, step.overlap, step.mean_form, lambda: step.errors(3)):
        with pytest.raises(ValueError, match=f"a {ae.kind} has no"):
            ask()
    assert_close(SquaredError()(step), total)


def test_alone_sums_are_what_they_are():
    x = zoo.tokens()
    assert ALONE.total(x) is x
    assert (ALONE.total_count(7, x), ALONE.is_first) == (7, True)
