"""Eigenpairs of one form and of all latents, against numpy.linalg.eigh of the materialized matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import dictionary as dictionary_module
from quadric.geometry import spectra, spectrum
from quadric.geometry.dictionary import support
from quadric.geometry.spectra import eigenpairs, eigenvalues, padded_table
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
        "same_factors": True,
    },
    "quadratic tied": {"d_model": 6, "n_latents": 4, "n_hidden": 9, "prior": "quadratic", "same_factors": True},
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


def table_of(batches):
    """All eigenvalues, one row per latent."""
    rows = [(batch.latents, batch.eigenvalues) for batch in batches]
    return padded_table(rows, sum(len(latents) for latents, _ in rows))


@pytest.mark.parametrize("build", list(every_autoencoder()))
def test_spectra_match_dense_eigh(build):
    ae = build()
    seen = []
    for latents, values, vectors in spectra(ae):
        for latent, found, eigenvectors in zip(latents.tolist(), values, vectors, strict=True):
            seen.append(latent)
            matrix, expected = dense_eigenvalues(ae, latent)
            padded = np.zeros(max(len(expected), len(found)))
            padded[: len(expected)] = np.abs(expected)
            np.testing.assert_allclose(found.abs(), padded[: len(found)], atol=1e-6)
            np.testing.assert_allclose(padded[len(found) :], 0, atol=1e-6)
            np.testing.assert_allclose((eigenvectors * found) @ eigenvectors.mT, matrix, atol=1e-6)
            assert float(found.sum()) == pytest.approx(np.trace(matrix), abs=1e-6)
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
    whole = list(spectra(ae))
    assert max(len(batch.latents) for batch in whole) > 1
    monkeypatch.setattr(dictionary_module, "BATCH_NUMBERS", 1)
    single = list(spectra(ae))
    assert [len(batch.latents) for batch in single] == [1] * ae.n_latents
    torch.testing.assert_close(table_of(single), table_of(whole), atol=1e-12, rtol=0)


def test_large_quadratic_latents_are_added_up_in_single_precision(monkeypatch):
    exact = table_of(spectra(trained("quadratic")))
    monkeypatch.setattr(dictionary_module, "CHEAP_IN_DOUBLE", 0)
    rounded = table_of(spectra(trained("quadratic")))
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
    assert table_of(spectra(ae)).abs().sum() == 0
    assert spectrum(ae, 0).eigenvectors.shape == (3, 0)


def test_a_direction_is_the_rank_one_form_of_its_energy():
    baseline = TopKAutoencoder(d_model=4, n_latents=8, n_active=2)
    with torch.no_grad():
        baseline.decoder[5] *= 3
    assert support(baseline).tolist() == [1] * 8
    assert table_of(spectra(baseline))[:, 0].tolist() == pytest.approx([1, 1, 1, 1, 1, 9, 1, 1])
    values, vectors = spectrum(baseline, 5)
    assert values.tolist() == pytest.approx([9])
    assert abs(float(vectors[:, 0] @ baseline.decoder.detach()[5].double())) == pytest.approx(3)
    assert next(spectra(baseline)).eigenvalues.shape == (8, 1)


def dense(left, right, weights):
    half = left.mT @ (weights[:, None] * right)
    return ((half + half.mT) / 2).numpy()


def by_size(values):
    return values[np.argsort(-np.abs(values), kind="stable")]


@st.composite
def terms(draw):
    """Few or many terms, some repeated, some with weight zero, some with l = r."""
    m, d = draw(st.integers(0, 7)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    left = torch.randn(m, d, generator=generator, dtype=torch.float64)
    right = torch.randn(m, d, generator=generator, dtype=torch.float64)
    weights = torch.randn(m, generator=generator, dtype=torch.float64)
    for j in range(m):
        fate = draw(st.sampled_from(["as it is", "zero", "square", "repeated"]))
        if fate == "zero":
            weights[j] = 0
        if fate == "square":
            right[j] = left[j]
        if fate == "repeated" and j:
            left[j], right[j] = left[0], right[0]
    return left, right, weights


@given(terms())
@settings(max_examples=200)
def test_eigenpairs_are_those_of_the_matrix(given_terms):
    left, right, weights = given_terms
    matrix = dense(left, right, weights)
    values, vectors = eigenpairs(left, right, weights)
    expected = by_size(np.linalg.eigvalsh(matrix))
    assert len(values) <= left.shape[1]
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(np.abs(values.numpy()), np.abs(expected[: len(values)]), atol=1e-12 * scale)
    np.testing.assert_allclose(expected[len(values) :], 0, atol=1e-12 * scale)
    np.testing.assert_allclose(vectors.mT @ vectors, np.eye(len(values)), atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.mT, matrix, atol=1e-12 * scale)
    np.testing.assert_allclose(eigenvalues(left, right, weights).abs(), values.abs(), atol=1e-12 * scale)


def test_the_order_is_by_size_whatever_the_sign():
    axes = torch.eye(5, dtype=torch.float64)
    values, _ = eigenpairs(axes[:3], axes[:3], torch.tensor([1.0, -3.0, 2.0], dtype=torch.float64))
    assert values.tolist() == pytest.approx([-3, 2, 1])


def test_repeated_eigenvalues_span_the_same_eigenspace():
    """Eigenvectors of a repeated eigenvalue are arbitrary; their projector is not."""
    basis = torch.linalg.qr(torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    weights = torch.tensor([2.0, 2.0, 2.0, -1.0, -1.0], dtype=torch.float64)
    values, vectors = eigenpairs(basis.mT, basis.mT, weights)
    assert values.tolist() == pytest.approx([2, 2, 2, -1, -1], abs=1e-12)
    for eigenspace, planted in ((vectors[:, :3], basis[:, :3]), (vectors[:, 3:], basis[:, 3:])):
        torch.testing.assert_close(eigenspace @ eigenspace.mT, planted @ planted.mT, atol=1e-12, rtol=0)


def test_terms_that_cancel_leave_exactly_nothing():
    left = torch.randn(3, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    right = torch.randn(3, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    twice = torch.cat([left, left]), torch.cat([right, right])
    weights = torch.tensor([1.0, 2.0, 3.0, -1.0, -2.0, -3.0], dtype=torch.float64)
    assert eigenvalues(*twice, weights).tolist() == [0.0] * 12


def test_a_batch_is_its_members():
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(2, 3, 4, 10, generator=generator, dtype=torch.float64) for _ in range(2))
    weights = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    batch = eigenpairs(left, right, weights)
    single = eigenpairs(left[1, 2], right[1, 2], weights[1, 2])
    torch.testing.assert_close(batch.eigenvalues[1, 2], single.eigenvalues)
    rebuilt = (batch.eigenvectors[1, 2] * batch.eigenvalues[1, 2]) @ batch.eigenvectors[1, 2].mT
    np.testing.assert_allclose(rebuilt, dense(left[1, 2], right[1, 2], weights[1, 2]), atol=1e-12)


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        eigenpairs(torch.randn(2, 9), torch.randn(2, 9), torch.ones(2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
