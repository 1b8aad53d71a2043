"""The spectra of all latents, against numpy.linalg.eigh of every materialized W_i."""

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import all_eigenvalues, spectra, spectrum
from quadric.geometry import dictionary as dictionary_module
from quadric.geometry.dictionary import support
from tests.geometry.examples import by_hand, planted_shapes, trained
from tests.naive import mixing_matrix
from tests.zoo import VARIETIES, make

AWKWARD = {
    "one atom": {"d_model": 6, "n_latents": 4, "n_hidden": 1, "prior": "composite", "mixing_density": 0.5},
    "one dimension": {"d_model": 1, "n_latents": 5, "n_hidden": 7, "prior": "composite", "mixing_density": 0.4},
    "one latent": {"d_model": 5, "n_latents": 1, "prior": "atomic"},
    "support beyond d/2": {"d_model": 6, "n_latents": 5, "n_hidden": 30, "prior": "composite", "mixing_density": 0.4},
    "many empty latents": {"d_model": 6, "n_latents": 40, "n_hidden": 20, "prior": "composite", "mixing_density": 0.01},
    "tied composite": {
        "d_model": 16,
        "n_latents": 10,
        "n_hidden": 20,
        "prior": "composite",
        "mixing_density": 0.2,
        "tied": True,
    },
    "quadratic tied": {"d_model": 6, "n_latents": 4, "n_hidden": 9, "prior": "quadratic", "tied": True},
    "quadratic with few atoms": {"d_model": 20, "n_latents": 4, "n_hidden": 3, "prior": "quadratic"},
    "half precision": {"d_model": 9, "n_latents": 6, "prior": "composite", "dtype": torch.bfloat16},
}


def every_autoencoder():
    for variety in VARIETIES:
        yield pytest.param(lambda variety=variety: make(variety), id=variety)
        yield pytest.param(lambda variety=variety: make(variety, torch.float32), id=f"{variety} float32")
    for name, sizes in AWKWARD.items():
        yield pytest.param(lambda sizes=sizes: BilinearAutoencoder(**sizes), id=name)
    for prior in ("atomic", "composite", "quadratic"):
        yield pytest.param(lambda prior=prior: trained(prior), id=f"trained {prior}")
    yield pytest.param(planted_shapes, id="by hand")


def dense_eigenvalues(ae, latent):
    """W_i, materialized in float64 from the stored weights, and its eigenvalues by |λ| descending."""
    atoms, weights = ae.mixing.row(latent)
    left, right = ae.left.detach().double()[atoms], ae.right.detach().double()[atoms]
    half = left.mT @ (weights.double()[:, None] * right)
    matrix = ((half + half.mT) / 2).numpy()
    values = np.linalg.eigvalsh(matrix)
    return matrix, values[np.argsort(-np.abs(values), kind="stable")]


@pytest.mark.parametrize("build", list(every_autoencoder()))
def test_spectra_match_dense_eigh(build):
    ae = build()
    table = all_eigenvalues(ae)
    seen = []
    for latents, values, vectors in spectra(ae):
        for latent, eigenvalues, eigenvectors in zip(latents.tolist(), values, vectors, strict=True):
            seen.append(latent)
            matrix, expected = dense_eigenvalues(ae, latent)
            padded = np.zeros(max(len(expected), len(eigenvalues)))
            padded[: len(expected)] = np.abs(expected)
            np.testing.assert_allclose(eigenvalues.abs(), padded[: len(eigenvalues)], atol=1e-6)
            np.testing.assert_allclose(padded[len(eigenvalues) :], 0, atol=1e-6)
            np.testing.assert_allclose((eigenvectors * eigenvalues) @ eigenvectors.mT, matrix, atol=1e-6)
            np.testing.assert_allclose(table[latent, : len(eigenvalues)].abs(), eigenvalues.abs(), atol=1e-9)
            assert float(table[latent].sum()) == pytest.approx(np.trace(matrix), abs=1e-6)
    assert sorted(seen) == list(range(ae.n_latents))


@pytest.mark.parametrize("build", list(every_autoencoder()))
def test_the_spectrum_of_one_latent(build):
    ae = build()
    for latent in {0, ae.n_latents // 2, ae.n_latents - 1}:
        matrix, expected = dense_eigenvalues(ae, latent)
        found = spectrum(ae, latent)
        rank = len(found.eigenvalues)
        assert found.eigenvectors.shape == (ae.lens.width, rank)
        assert bool((found.eigenvalues != 0).all())
        assert found.eigenvalues.abs().tolist() == sorted(found.eigenvalues.abs().tolist(), reverse=True)
        np.testing.assert_allclose(found.eigenvalues.abs(), np.abs(expected[:rank]), atol=1e-6)
        rebuilt = (found.eigenvectors * found.eigenvalues) @ found.eigenvectors.mT
        np.testing.assert_allclose(rebuilt, matrix, atol=1e-6)
        np.testing.assert_allclose(np.abs(expected[rank:]), 0, atol=1e-6)
        np.testing.assert_allclose(found.eigenvectors.mT @ found.eigenvectors, np.eye(rank), atol=1e-6)


@pytest.mark.parametrize("build", list(every_autoencoder()))
def test_support_counts_the_atoms_of_every_latent(build):
    ae = build()
    assert support(ae).tolist() == (mixing_matrix(ae) != 0).sum(1).tolist()


def test_an_entry_of_zero_is_no_support():
    """Training may leave an exact zero inside the mask."""
    ae = planted_shapes()
    with torch.no_grad():
        ae.mixing.weight[0, 0] = 0
    assert support(ae)[0] == 1
    assert spectrum(ae, 0).eigenvalues.tolist() == pytest.approx([1])


@pytest.mark.parametrize("prior", ["composite", "quadratic"])
def test_batches_of_one_latent_give_the_same(prior, monkeypatch):
    ae = trained(prior)
    whole = all_eigenvalues(ae)
    assert max(len(batch.latents) for batch in spectra(ae)) > 1
    monkeypatch.setattr(dictionary_module, "BATCH_NUMBERS", 1)
    torch.testing.assert_close(all_eigenvalues(ae), whole, atol=1e-12, rtol=0)
    assert [len(batch.latents) for batch in spectra(ae)] == [1] * ae.n_latents


def test_large_quadratic_latents_are_added_up_in_single_precision(monkeypatch):
    exact = all_eigenvalues(trained("quadratic"))
    monkeypatch.setattr(dictionary_module, "CHEAP_IN_DOUBLE", 0)
    rounded = all_eigenvalues(trained("quadratic"))
    assert 0 < float((rounded - exact).abs().max()) < 1e-6 * float(exact.abs().max())


def test_eigenspaces_of_repeated_eigenvalues():
    """The planted sphere: any basis of its space is right, the projector is one."""
    ae = planted_shapes(torch.float64)
    values, vectors = spectrum(ae, 1)
    sphere = ae.left.detach()[2:5]
    assert values.tolist() == pytest.approx([0.5] * 3, abs=1e-12)
    torch.testing.assert_close(vectors @ vectors.mT, sphere.mT @ sphere, atol=1e-12, rtol=0)


def test_a_dictionary_of_nothing():
    ae = by_hand(torch.ones(2, 3), torch.ones(2, 3), torch.tensor([[0.0, 1.0]]))
    with torch.no_grad():
        ae.mixing.weight.zero_()
    assert all_eigenvalues(ae).abs().sum() == 0
    assert spectrum(ae, 0).eigenvectors.shape == (3, 0)


def test_a_direction_is_the_rank_one_form_of_its_energy():
    baseline = TopKAutoencoder(d_model=4, n_latents=8, n_active=2)
    with torch.no_grad():
        baseline.decoder[5] *= 3
    assert support(baseline).tolist() == [1] * 8
    assert all_eigenvalues(baseline)[:, 0].tolist() == pytest.approx([1, 1, 1, 1, 1, 9, 1, 1])
    values, vectors = spectrum(baseline, 5)
    assert values.tolist() == pytest.approx([9])
    assert abs(float(vectors[:, 0] @ baseline.decoder.detach()[5].double())) == pytest.approx(3)
    assert next(spectra(baseline)).eigenvalues.shape == (8, 1)
