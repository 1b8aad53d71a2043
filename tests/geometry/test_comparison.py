"""The comparison as a whole, its nulls against sampled rotations, its eigenforms against the operator."""

from importlib import import_module

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.geometry import compare, frobenius_similarity, hungarian_similarity
from quadric.geometry.comparison import NULL_SEED, expected_cross_energy, leading_eigenspace
from quadric.geometry.kernels import cross_kernel
from quadric.geometry.similarity import randomly_initialized
from tests.geometry.examples import by_hand, planted_shapes, trained

spectra_module = import_module("quadric.geometry.spectra")  # the package's attribute is the function


def test_a_comparison_repeats_the_single_measures():
    a, b = trained(), trained("atomic", seed=1)
    found = compare(a, b)
    assert found.agreement.frobenius == frobenius_similarity(a, b)
    assert found.agreement.hungarian.similarity == hungarian_similarity(a, b).similarity
    assert found.agreement.sign_free.alignment == hungarian_similarity(a, b, sign_free=True).alignment
    null = randomly_initialized(b, NULL_SEED)
    assert found.random.frobenius == frobenius_similarity(a, null)
    assert found.random.hungarian.symmetric == hungarian_similarity(a, null).symmetric
    assert compare(a, b, null_seed=3).random.frobenius != found.random.frobenius


def test_a_run_with_itself():
    found = compare(trained(), trained())
    assert found.agreement.frobenius == 1.0
    assert found.agreement.hungarian.alignment == pytest.approx(1.0, rel=1e-12)  # K and M are summed in other orders
    assert found.agreement.eigenspaces == pytest.approx(1, rel=1e-9)


def test_eigenspaces_compare_subspaces_of_the_product_space():
    """Two bases of the same space of forms overlap fully; spaces that share half overlap by half."""
    axes = torch.eye(6)
    plane = by_hand(axes[:2], axes[:2], torch.eye(2))
    turned = by_hand(axes[:2], axes[:2], torch.tensor([[0.6, 0.8], [-0.8, 0.6]]))
    shifted = by_hand(axes[1:3], axes[1:3], torch.eye(2))
    assert compare(plane, turned).agreement.eigenspaces == pytest.approx(1)
    assert compare(plane, turned).agreement.hungarian.alignment == pytest.approx(0.6)
    assert compare(plane, turned).agreement.sign_free.alignment == pytest.approx(0.8)
    assert compare(plane, shifted).agreement.eigenspaces == pytest.approx(0.5)


def test_nothing_to_compare():
    nothing = by_hand(torch.zeros(2, 3), torch.zeros(2, 3), torch.eye(2))
    found = compare(nothing, nothing)
    assert (found.agreement.frobenius, found.agreement.eigenspaces, found.rotated_eigenspaces) == (1.0, 0.0, 0.0)


def test_different_widths_are_refused():
    a, b = planted_shapes(), by_hand(torch.eye(3), torch.eye(3), torch.eye(3))
    for force in (False, True):
        with pytest.raises(ValueError, match="d_model=12 and d_model=3 differ"):
            compare(a, b, force=force)


def rotations(d, count, seed=0):
    """Haar-distributed rotations: QR of Gaussians, signs fixed by R."""
    gaussian = torch.randn(count, d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_the_average_over_rotations(d):
    generator = torch.Generator().manual_seed(d)
    forms, others = (torch.randn(k, d, d, generator=generator, dtype=torch.float64) for k in (3, 4))
    forms, others = forms + forms.mT, others + others.mT + torch.eye(d)
    turns = rotations(d, 40_000)
    turned = torch.einsum("nab,jbc,ndc->njad", turns, others, turns)
    sampled = torch.einsum("iad,njad->nij", forms, turned).square().sum((1, 2))
    expected = expected_cross_energy(
        forms.square().sum((1, 2)),
        torch.einsum("iaa->i", forms),
        others.square().sum((1, 2)),
        torch.einsum("iaa->i", others),
        d,
    )
    assert expected == pytest.approx(float(sampled.mean()), abs=5 * float(sampled.std()) / 200 + 1e-9)


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_unrelated_random_runs_agree_as_much_as_chance_predicts(prior):
    """Orthogonal initialization has no preferred direction, so two seeds are random rotations of each other."""
    sizes = {} if prior == "atomic" else {"n_hidden": 48}
    if prior == "composite":
        sizes["mixing_density"] = 0.25  # at the default, two entries of C would be too few for an average
    runs = [BilinearAutoencoder(d_model=24, n_latents=40, prior=prior, seed=seed, **sizes) for seed in range(24)]
    found = [compare(a, b) for a, b in zip(runs[::2], runs[1::2], strict=True)]
    similarities = torch.tensor([pair.agreement.frobenius for pair in found])
    predicted = torch.tensor([pair.rotated_frobenius for pair in found])
    assert float(similarities.mean()) == pytest.approx(float(predicted.mean()), rel=0.15)
    overlaps = torch.tensor([pair.agreement.eigenspaces for pair in found])
    assert float(overlaps.mean()) == pytest.approx(
        float(torch.tensor([pair.rotated_eigenspaces for pair in found]).mean()), rel=0.15
    )


def test_chance_falls_with_width_and_a_trained_pair_stands_above_it():
    by_width = []
    for d in (8, 16, 32):
        a, b = (BilinearAutoencoder(d_model=d, n_latents=16, prior="atomic", seed=seed) for seed in (0, 1))
        by_width.append(frobenius_similarity(a, b))
    assert by_width[0] > 2 * by_width[1] > 4 * by_width[2]
    pair = compare(trained(), trained(seed=1))
    assert pair.agreement.frobenius > 2 * pair.rotated_frobenius
    assert pair.agreement.sign_free.alignment > 2 * pair.random.sign_free.alignment


def test_one_dimension_leaves_nothing_to_chance():
    a, b = (BilinearAutoencoder(d_model=1, n_latents=3, prior="atomic", seed=seed) for seed in (0, 1))
    pair = compare(a, b)
    assert pair.rotated_frobenius == pytest.approx(pair.agreement.frobenius)


def flat_forms(ae):
    return torch.stack([ae.form(i).double().flatten() for i in range(ae.n_latents)])


@pytest.mark.parametrize("largest_dense", [1_024, 0])
def test_eigenforms_are_eigenvectors_of_the_operator(largest_dense, monkeypatch):
    monkeypatch.setattr(spectra_module, "LARGEST_DENSE", largest_dense)
    ae = trained("quadratic")
    forms = flat_forms(ae)
    values, coefficients = leading_eigenspace(cross_kernel(ae, ae), 5)
    eigenforms = coefficients.mT @ forms
    torch.testing.assert_close(eigenforms @ eigenforms.mT, torch.eye(5).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(eigenforms @ forms.mT @ forms, values[:, None] * eigenforms, atol=1e-5, rtol=0)
    expected = torch.linalg.eigvalsh(forms.mT @ forms).flip(0)[:5]
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)


def test_no_more_eigenforms_than_the_rank():
    ae = planted_shapes()
    assert len(leading_eigenspace(cross_kernel(ae, ae), 64)[0]) == 5  # one of six latents is empty
    assert len(leading_eigenspace(torch.zeros(3, 3), 2)[0]) == 0
