"""Inner products of forms and overlaps of directions with them, against materialized forms."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import kernels, latent_form
from quadric.geometry.kernels import cross_kernel, direction_overlaps, inner, squared_norm, traces
from quadric.model.lens import affine_lens, token_moments
from tests.geometry.linear_dictionary import D_MODEL, tokens, topk
from tests.zoo import VARIETIES, make


def forms(ae):
    return torch.stack([ae.form(i).double() for i in range(ae.n_latents)])


@pytest.mark.parametrize("block", [1_024, 7])
@pytest.mark.parametrize("variety", VARIETIES)
def test_inner_products_between_all_priors_and_sizes(variety, block, monkeypatch):
    monkeypatch.setattr(kernels, "ATOM_BLOCK", block)
    a = make(variety)
    for other in (each for each in VARIETIES if ("affine" in each) == ("affine" in variety)):
        b = make(other)
        expected = torch.einsum("ade,bde->ab", forms(a), forms(b))
        torch.testing.assert_close(cross_kernel(a, b), expected, atol=1e-12, rtol=1e-9)


def test_forms_in_different_coordinates_are_refused():
    for other in ("atomic", "quadratic"):
        with pytest.raises(ValueError, match="different lenses"):
            cross_kernel(make("atomic affine"), make(other))


def test_large_dictionaries_are_multiplied_in_single_precision(monkeypatch):
    a, b = make("composite sparse storage"), make("quadratic")
    exact = cross_kernel(a, b)
    monkeypatch.setattr(kernels, "CHEAP_IN_DOUBLE", 0)
    rounded = cross_kernel(a, b)
    assert (exact.dtype, rounded.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(rounded.double(), exact, atol=1e-5, rtol=0)


@pytest.mark.parametrize("variety", VARIETIES)
def test_traces(variety):
    ae = make(variety)
    expected = [latent_form(ae, i).trace() for i in range(ae.n_latents)]
    assert traces(ae).tolist() == pytest.approx(expected, abs=1e-12)


def test_sums_over_blocks(monkeypatch):
    monkeypatch.setattr(kernels, "ATOM_BLOCK", 3)
    matrix, other = torch.randn(2, 10, 4, generator=torch.Generator().manual_seed(0)).unbind()
    assert squared_norm(matrix) == inner(matrix, matrix) == pytest.approx(float(matrix.norm()) ** 2, rel=1e-6)
    assert inner(matrix, other) == pytest.approx(float((matrix * other).sum()), rel=1e-4)


def naive(direction: torch.Tensor, form: torch.Tensor, d_model: int) -> float:
    """Length of the projection of W on the forms of d·v alone, over the length of W."""
    width = len(form)
    d = torch.zeros(width, dtype=torch.float64)
    d[:d_model] = direction.double() / direction.double().norm()
    basis = [d.outer(d)]
    if width > d_model:
        beside = torch.eye(width, dtype=torch.float64)[-1]
        slope = d.outer(beside) + beside.outer(d)
        basis.append(slope / slope.norm())
    parts = torch.stack([(form.double() * each).sum() for each in basis])
    return float(parts.norm() / form.double().norm())


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
@pytest.mark.parametrize("with_lens", [False, True])
def test_overlaps_with_forms_are_projections(prior, with_lens):
    lens = affine_lens(token_moments(tokens())) if with_lens else None
    density = {"mixing_density": 0.3} if prior == "composite" else {}
    bilinear = BilinearAutoencoder(d_model=D_MODEL, n_latents=6, prior=prior, lens=lens, **density)
    ae = topk()
    found = direction_overlaps(ae.decoder, bilinear)
    for i in (0, 5):
        for j in range(6):
            assert float(found[i, j]) == pytest.approx(
                naive(ae.decoder.detach()[i], bilinear.form(j), D_MODEL), abs=1e-6
            )


def test_a_latent_that_is_a_function_of_one_direction_overlaps_wholly_whatever_the_function():
    lens = affine_lens(token_moments(tokens()))
    bilinear = BilinearAutoencoder(d_model=D_MODEL, n_latents=3, prior="atomic", lens=lens)
    d = topk().decoder.detach()[4]
    with torch.no_grad():
        for latent, (left, right) in enumerate([(0, 0), (0, 1), (2, 1)]):
            for factors, beside in ((bilinear.left, left), (bilinear.right, right)):
                factors[latent] = torch.cat([0 * d if beside == 1 else d, torch.tensor([float(beside == 1)])])
        bilinear.left[2, -1] = 0.0
        bilinear.right[2] = torch.cat([2 * d, torch.tensor([0.5])])
    assert direction_overlaps(d[None], bilinear)[0].tolist() == pytest.approx([1, 1, 1], abs=1e-6)


def test_two_directions_overlap_by_their_cosine_and_opposites_not_at_all():
    ae = TopKAutoencoder(d_model=2, n_latents=3, n_active=1)
    with torch.no_grad():
        ae.decoder.copy_(torch.tensor([[3.0, 0], [-1, 0], [1, 1]]))
    found = direction_overlaps(torch.tensor([[2.0, 0], [0, 0]]), ae)
    assert found[0].tolist() == pytest.approx([1, 0, 0.5**0.5])
    assert found[1].tolist() == [0, 0, 0]
