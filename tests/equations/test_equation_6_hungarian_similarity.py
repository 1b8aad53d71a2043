"""Equation 6: Sim_H = ‖WᵀPW'‖_F / ‖W'ᵀW'‖_F with the permutation that maximizes tr(WᵀPW'), on materialized forms."""

import pytest
import torch

from quadric.geometry import hungarian_similarity
from tests.geometry.examples import by_hand, trained
from tests.naive import mixing_matrix


def flat_forms(ae):
    return torch.stack([ae.form(i).double().flatten() for i in range(ae.n_latents)])


@pytest.mark.parametrize(("prior", "other"), [("atomic", "composite"), ("composite", "quadratic")])
def test_sim_h_is_the_printed_formula(prior, other):
    a, b = trained(prior), trained(other, seed=1)
    found = hungarian_similarity(a, b)
    forms, others = flat_forms(a), flat_forms(b)
    permutation = torch.zeros(a.n_latents, b.n_latents, dtype=torch.float64)
    permutation[found.latents, found.partners] = 1
    matched = forms.mT @ permutation @ others
    similarity = matched.norm() / (others.mT @ others).norm()
    assert found.similarity == pytest.approx(float(similarity), rel=1e-6)
    both = (forms.mT @ forms).norm() * (others.mT @ others).norm()
    assert found.symmetric == pytest.approx(float(matched.norm() / both.sqrt()), rel=1e-6)
    alignment = matched.trace() / (forms.norm() * others.norm())
    assert found.alignment == pytest.approx(float(alignment), rel=1e-6)


def test_no_other_permutation_has_a_larger_trace():
    a, b = trained(), trained(seed=1)
    found = hungarian_similarity(a, b)
    products = flat_forms(a) @ flat_forms(b).mT
    best = float(products[found.latents, found.partners].sum())
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        partners = torch.randperm(20, generator=generator)
        assert float(products[torch.arange(20), partners].sum()) <= best + 1e-9
    for i in range(20):  # nor one exchange away, where a greedy choice would stop
        for j in range(i):
            partners = found.partners.clone()
            partners[i], partners[j] = found.partners[j], found.partners[i]
            assert float(products[torch.arange(20), partners].sum()) <= best + 1e-9


def test_sim_h_depends_on_kernels_alone_and_may_exceed_1():
    """‖WᵀPW'‖² = ⟨PᵀKP, K'⟩: rotating one dictionary away from the other leaves it as it is, for a given P."""
    forms, others = flat_forms(trained()), flat_forms(trained(seed=1))
    generator = torch.Generator().manual_seed(0)
    d2 = forms.shape[1]
    rotation = torch.linalg.qr(torch.randn(d2, d2, generator=generator, dtype=torch.float64))[0]
    permutation = torch.eye(len(forms), dtype=torch.float64)[torch.randperm(len(forms), generator=generator)]
    inner = ((permutation.mT @ forms @ forms.mT @ permutation) * (others @ others.mT)).sum()
    for moved in (forms, forms @ rotation):
        assert float((moved.mT @ permutation @ others).square().sum()) == pytest.approx(float(inner), rel=1e-9)
    ae = trained()
    doubled = by_hand(ae.left.detach(), ae.right.detach(), 2 * mixing_matrix(ae).detach())
    assert hungarian_similarity(doubled, ae).similarity == pytest.approx(2)
