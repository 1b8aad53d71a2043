"""The algebra of forms in weight space, against the same algebra of d×d matrices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.geometry import Form, latent_form, shape_of
from tests.geometry.examples import orthonormal, planted_shapes, trained
from tests.zoo import VARIETIES, make, tokens

CLOSE = {"atol": 1e-12, "rtol": 1e-10}


@pytest.mark.parametrize("variety", VARIETIES)
def test_a_latents_form_is_its_matrix(variety):
    ae = make(variety)
    x = tokens(seed=1)
    for latent in (0, 7, ae.n_latents - 1):
        form, matrix = latent_form(ae, latent), ae.form(latent)
        torch.testing.assert_close(form.matrix(), matrix, **CLOSE)
        torch.testing.assert_close(form(ae.lens(x)), ae.encode(x)[:, latent].detach(), atol=1e-9, rtol=1e-9)
        assert form.trace() == pytest.approx(float(matrix.trace()), abs=1e-12)
        assert form.norm() == pytest.approx(float(matrix.norm()), abs=1e-12)
        assert form.inner(latent_form(ae, 1)) == pytest.approx(float((matrix * ae.form(1)).sum()), abs=1e-12)


@given(st.integers(0, 19), st.integers(0, 19), st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=50)
def test_combining_forms_combines_matrices_and_latents(i, j, a, b):
    ae = trained()
    form = a * latent_form(ae, i) - latent_form(ae, j) * b + -latent_form(ae, 0) / 2
    matrix = (a * ae.form(i).double() - b * ae.form(j).double()) - ae.form(0).double() / 2
    torch.testing.assert_close(form.matrix(), matrix, atol=1e-6, rtol=0)
    x = tokens(8, 12)
    torch.testing.assert_close(form(x), torch.einsum("nd,de,ne->n", x, form.matrix(), x), atol=1e-8, rtol=1e-8)
    assert form.norm() == pytest.approx(float(form.matrix().norm()), abs=1e-9)
    values, vectors = form.eigenpairs()
    torch.testing.assert_close((vectors * values) @ vectors.mT, form.matrix(), atol=1e-12, rtol=0)


def test_sums_over_latents():
    ae = trained()
    matrix = sum(ae.form(i).double() for i in range(ae.n_latents))
    forms = [latent_form(ae, i) for i in range(ae.n_latents)]
    for total in (sum(forms), Form.total(forms)):
        torch.testing.assert_close(total.matrix(), matrix, atol=1e-5, rtol=0)


def test_w1_and_w2_is_an_ellipse_and_w1_and_not_w2_a_hyperbola():
    """The paper's figure: slabs of two directions, their sum and their difference."""
    axes = orthonormal(9, 2)
    w1, w2 = Form.of_direction(axes[:, 0]), Form.of_direction(2 * axes[:, 1])
    assert shape_of(w1.eigenpairs().eigenvalues).figure == "slab"
    conjunction, exclusion = w1 + w2, w1 - w2
    assert shape_of(conjunction.eigenpairs().eigenvalues).figure == "ellipse"
    assert shape_of(exclusion.eigenpairs().eigenvalues).figure == "hyperbola"
    both, only_first, only_second = axes.sum(1), axes[:, 0], axes[:, 1]
    points = torch.stack([both, only_first, only_second])
    assert conjunction(points).tolist() == pytest.approx([5, 1, 4])
    assert exclusion(points).tolist() == pytest.approx([-3, 1, -4])
    assert (conjunction - conjunction).eigenpairs().eigenvalues.shape == (0,)


def test_cosine():
    form = latent_form(trained(), 5)
    empty = latent_form(planted_shapes(), 4)
    assert form.cosine(3 * form) == pytest.approx(1)
    assert form.cosine(-form) == pytest.approx(-1)
    assert empty.cosine(empty) == 0.0


def test_an_empty_form():
    form = latent_form(planted_shapes(), 4)
    assert form.n_terms == 0
    assert form.trace() == form.norm() == 0
    assert form.matrix().shape == (12, 12)
    assert form.eigenpairs().eigenvectors.shape == (12, 0)
    assert (form + latent_form(planted_shapes(), 0)).norm() == pytest.approx(2**0.5)


def test_mistakes_are_named():
    narrow, wide = Form.of_direction(torch.ones(3)), Form.of_direction(torch.ones(4))
    with pytest.raises(ValueError, match=r"widths \[3, 4\]"):
        _ = narrow + wide
    with pytest.raises(ValueError, match="at least one form"):
        Form.total([])
    with pytest.raises(TypeError):
        _ = narrow + 1
    with pytest.raises(TypeError):
        _ = narrow * narrow
    with pytest.raises(IndexError, match="latent 20 is outside 0 … 19"):
        latent_form(trained(), 20)
