"""One decomposition of every latent against the separate computations it replaces."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.geometry import all_eigenvalues, decompose, leading_axes, spectra, spectrum
from quadric.geometry.dictionary import support
from tests import zoo


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_eigenvalues_and_vectors_are_those_of_each_latent_alone(variety: str) -> None:
    ae = zoo.make(variety)
    found = decompose(ae)
    torch.testing.assert_close(found.eigenvalues, all_eigenvalues(ae), rtol=1e-12, atol=1e-14)
    assert torch.equal(found.support, support(ae))
    for latents, values, vectors in spectra(ae):
        for latent, own, directions in zip(latents.tolist(), values, vectors, strict=True):
            kept = min(8, len(own))
            assert torch.equal(found.eigenvalues[latent, : len(own)], own)
            expected = (directions[:, :kept] * (own[:kept] != 0)).float()
            assert torch.equal(found.eigenvectors[latent, :, :kept].abs(), expected.abs())
            assert not found.eigenvectors[latent, :, kept:].any()


@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_axes_are_the_leading_eigenvectors_with_a_fixed_sign(variety: str) -> None:
    ae = zoo.make(variety, torch.float32)
    axes = leading_axes(ae, 5)
    for latent in range(ae.n_latents):
        values = spectrum(ae, latent).eigenvalues
        kept = min(5, len(values))
        form = axes[latent, :, :kept].double()
        torch.testing.assert_close(form.mT @ form, torch.eye(kept, dtype=torch.float64), atol=1e-5, rtol=0)
        rebuilt = (form.mT @ ae.form(latent).double() @ form).diagonal()
        torch.testing.assert_close(rebuilt, values[:kept], atol=1e-5, rtol=1e-4)
        assert (axes[latent, :, kept:] == 0).all()
        largest = form.gather(0, form.abs().argmax(0, keepdim=True))
        assert (largest > 0).all()


@pytest.mark.parametrize("n_axes", [1, 5, 8, 9, 20])
def test_axes_from_a_known_decomposition_are_the_same_to_the_bit(n_axes: int) -> None:
    ae = zoo.make("composite dense storage")
    known = decompose(ae)
    assert (known.leading(n_axes) is None) == (n_axes > 8)
    assert torch.equal(leading_axes(ae, n_axes, known), leading_axes(ae, n_axes))


def test_a_model_narrower_than_the_number_of_axes_has_zeros_beyond_its_width() -> None:
    ae = BilinearAutoencoder(d_model=4, n_latents=3, n_hidden=6, prior="quadratic")
    axes = leading_axes(ae, 11, decompose(ae))
    assert axes.shape == (3, 4, 11)
    assert torch.equal(axes, leading_axes(ae, 11))
    assert not axes[..., 4:].any()


def test_each_latent_is_reported_once_and_the_summary_is_one_line() -> None:
    ae = zoo.make("quadratic")
    seen: list[int] = []
    found = decompose(ae, on_progress=seen.append)
    assert sum(seen) == ae.n_latents
    assert "\n" not in repr(found)
    assert "tensor" not in repr(found)


def test_mistakes_are_named() -> None:
    known = decompose(zoo.make("atomic"))
    with pytest.raises(ValueError, match="that of other weights"):
        leading_axes(zoo.make("atomic tied"), 3, known)
    with pytest.raises(ValueError, match="'topk' autoencoder has directions"):
        decompose(TopKAutoencoder(d_model=4, n_latents=8, n_active=2))
