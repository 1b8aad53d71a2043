"""Equation 5: Sim_F. Read on k×k kernels it depends on the order of latents; on the operators WᵀW it does not."""

import pytest
import torch

from quadric.geometry import frobenius_similarity
from tests.geometry.examples import by_hand, trained
from tests.naive import mixing_matrix


def operator(ae):
    """WᵀW, d²×d²: the linear map of the autoencoder on X."""
    forms = torch.stack([ae.form(i).double().flatten() for i in range(ae.n_latents)])
    return forms.mT @ forms


def printed(a, b):
    """1 − ‖A − B‖² / (‖A‖² + ‖B‖²)."""
    return float(1 - (a - b).square().sum() / (a.square().sum() + b.square().sum()))


@pytest.mark.parametrize(("prior", "other"), [("atomic", "composite"), ("composite", "quadratic")])
def test_sim_f_is_the_printed_formula_on_the_operators(prior, other):
    a, b = trained(prior), trained(other, seed=1)
    assert frobenius_similarity(a, b) == pytest.approx(printed(operator(a), operator(b)), rel=1e-6)


def test_both_printed_forms_agree():
    a, b = operator(trained()), operator(trained(seed=1))
    traced = 2 * (a * b).sum() / (a.square().sum() + b.square().sum())
    assert float(traced) == pytest.approx(printed(a, b), rel=1e-12)


def test_on_kernels_the_printed_formula_changes_with_the_order_of_latents():
    ae = trained()
    mixing = mixing_matrix(ae).detach()
    reversed_ae = by_hand(ae.left.detach(), ae.right.detach(), mixing.flip(0))
    assert printed(ae.kernel(), reversed_ae.kernel()) < 0.9
    assert frobenius_similarity(ae, reversed_ae) == pytest.approx(1, rel=1e-12)
