"""Evidence of linear dictionaries that were trained elsewhere: points lie where their encoders read them."""

import numpy as np
import pytest
import torch

import quadric
from quadric.geometry.quadrics import latent_frame
from quadric.interventions.latents import clamp
from quadric.model.linear import JumpReLUAutoencoder, ReLUAutoencoder
from tests.geometry.linear_dictionary import tokens

X = 5 * tokens(300)


def dictionary(kind, **settings):
    active = {"n_active": 3} if kind is quadric.TopKAutoencoder else {}
    ae = kind(d_model=10, n_latents=14, **active, **settings).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        ae.encoder += 0.2 * torch.randn(14, 10, generator=generator)
        ae.encoder_bias += 0.05 * torch.randn(14, generator=generator)
        ae.decoder_bias += 0.3
    return ae


@pytest.mark.parametrize("subtract_decoder_bias", [True, False])
@pytest.mark.parametrize("scale", ["unit", "own", "constant_norm", "layer_norm"])
@pytest.mark.parametrize("kind", [quadric.TopKAutoencoder, ReLUAutoencoder, JumpReLUAutoencoder])
def test_active_points_lie_on_their_planes_and_clamping_moves_the_reconstruction(kind, scale, subtract_decoder_bias):
    ae = dictionary(kind, input=scale, subtract_decoder_bias=subtract_decoder_bias)
    evidence = quadric.collect_evidence(ae, X, points=400, progress=False)
    given = ae.prepare(X)
    z = ae.encode(given).detach()
    for latent in range(ae.n_latents):
        frame = latent_frame(ae, latent, 8, evidence.calibration.tokens_centre())
        places = evidence.points.places[latent]
        active = (places >= 0) & (evidence.points.values[latent] > 0)
        plane = evidence.points.coordinates[latent][active] @ frame.axis_linear.numpy() + frame.constant
        np.testing.assert_allclose(plane, z[places[active], latent], atol=1e-5 * max(1.0, float(z.max())))
    clamped = z.clone()
    clamped[:, 2] = 0.7
    step = (ae.vectors_of(given, clamped) - ae.vectors_of(given, z)).detach()
    expected = X + step * (X.norm(dim=1, keepdim=True) / ae.lengths_of(given))
    torch.testing.assert_close(clamp(ae, 2, to=0.7)(X), expected, atol=1e-4, rtol=1e-4)
