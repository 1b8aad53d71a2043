"""Antipodal symmetry: (−x)(−x)ᵀ = xxᵀ, so bilinear latents do not depend on the sign of a token; linear ones do."""

import pytest
import torch

from quadric import BilinearAutoencoder, TopKAutoencoder
from tests import zoo


@pytest.mark.parametrize("variety", zoo.PAPER)
def test_bilinear_latents_and_errors_ignore_the_sign(variety):
    ae, x = zoo.make(variety), zoo.tokens()
    signs = torch.where(torch.arange(len(x)) % 2 == 0, 1.0, -1.0)[:, None]
    torch.testing.assert_close(ae.encode(signs * x), ae.encode(x), rtol=0, atol=0)
    torch.testing.assert_close(ae.loss(signs * x, 0.3), ae.loss(x, 0.3))


def test_an_affine_lens_tells_a_token_from_its_negative():
    ae, x = zoo.make("quadratic affine"), zoo.tokens()
    assert not torch.allclose(ae.encode(-x), ae.encode(x), rtol=0.1)


def test_one_bilinear_latent_replaces_two_linear_ones():
    """Points ±w: a single atom reconstructs both exactly; a linear autoencoder needs one latent for each."""
    w = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    x = torch.cat([w, -w])
    atom = BilinearAutoencoder(d_model=2, n_latents=1, prior="atomic", same_factors=True, dtype=torch.float64)
    atom.left.data.copy_(w)
    assert atom.error(x).abs().max() < 1e-12
    linear = TopKAutoencoder(d_model=2, n_latents=2, n_active=1, dtype=torch.float64)
    linear.encoder.data.copy_(torch.cat([w, -w]))
    linear.decoder.data.copy_(torch.cat([w, -w]))
    assert linear.error(x).abs().max() < 1e-12
    linear.encoder.data[1].zero_()
    assert linear.error(x)[1].item() == pytest.approx(1.0)
