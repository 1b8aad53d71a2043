"""Eigenpairs in the small span against numpy.linalg.eigh of the materialized matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.geometry.eigenpairs import eigenpairs, eigenvalues


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
