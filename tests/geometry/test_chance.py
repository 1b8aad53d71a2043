"""What chance gives: the average over rotations in closed form, against sampled rotations and random runs."""

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.geometry import compare, frobenius_similarity
from quadric.geometry.chance import expected_cross_energy
from tests.geometry.examples import trained


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
