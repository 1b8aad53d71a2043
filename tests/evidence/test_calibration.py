"""What a pass knows before it scores a token."""

import numpy as np
import pytest
import torch

from quadric.evidence import Calibration
from quadric.evidence.calibration import calibrate
from quadric.geometry.centring import centring_of
from tests import zoo
from tests.evidence.streams import small_autoencoder

TOKENS = zoo.tokens(300).float() + 1


@pytest.mark.parametrize("lens", ["paper", "affine"])
def test_it_is_read_back_from_its_arrays(lens: str) -> None:
    found = calibrate(small_autoencoder(lens=lens), TOKENS)
    again = Calibration.from_arrays(found.arrays())
    assert again.n_tokens == 300
    assert all(np.array_equal(array, again.arrays()[name]) for name, array in found.arrays().items())
    assert repr(found).startswith("Calibration(6 latents, 300 tokens, mean unit token of norm 0.")


def test_an_affine_lens_keeps_its_own_centre() -> None:
    ae = small_autoencoder(lens="affine")
    found = calibrate(ae, TOKENS)
    torch.testing.assert_close(found.centring(ae).centre, ae.lens.centre.double())
    raw = small_autoencoder()
    torch.testing.assert_close(found.centring(raw).centre, torch.from_numpy(found.centre).double())
    torch.testing.assert_close(centring_of(raw, found.tokens_centre()).direction, found.centring(raw).direction)


def test_rest_sign_and_predictor_of_minus_a_latent_are_minus_those_of_the_latent() -> None:
    ae = small_autoencoder()
    found = calibrate(ae, TOKENS)
    with torch.no_grad():
        (ae.mixing.weight if hasattr(ae.mixing, "weight") else ae.mixing.values).neg_()
    turned = calibrate(ae, TOKENS)
    np.testing.assert_array_equal(turned.signs, -found.signs)
    np.testing.assert_allclose(turned.rest, found.rest, atol=1e-7)
    np.testing.assert_allclose(turned.linear, found.linear, atol=1e-5)


def test_an_empty_latent_has_no_predictor() -> None:
    ae = small_autoencoder(3, prior="atomic")
    with torch.no_grad():
        ae.left[1] = 0
    found = calibrate(ae, TOKENS)
    assert not found.linear[1].any()
    assert (found.rest[1], found.signs[1]) == (0, 1)
    np.testing.assert_allclose(np.linalg.norm(found.linear[[0, 2]], axis=1), 1, rtol=1e-5)
