"""Cross-Gram matrices in blocks, against inner products of materialized forms."""

import pytest
import torch

from quadric.geometry import kernels, latent_form
from quadric.geometry.kernels import cross_kernel, inner, squared_norm, traces
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
