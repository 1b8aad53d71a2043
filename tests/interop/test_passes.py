"""The values of a second pass are those of the dictionary, in the order of the text."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.interop.passes import away_from_rest, token_values
from tests.data.tiny import D_MODEL
from tests.interop.exported_run import Observed


def test_every_token_is_read_once_and_in_order(observed: Observed) -> None:
    seen: list[tuple[str, int, int, str]] = []
    reading = replace(observed.reading(), on_progress=lambda *report: seen.append(report))
    parts = list(token_values(observed.autoencoder, reading))
    assert len(parts) > 1
    values = np.concatenate([part.values for part in parts])
    unit = observed.autoencoder.prepare(observed.activations.vectors)
    np.testing.assert_allclose(values, observed.autoencoder.encode(unit).detach().numpy(), rtol=1e-4, atol=1e-6)
    sequences = np.concatenate([part.sequences for part in parts])
    assert (np.diff(sequences) >= 0).all()
    assert seen[-1] == ("activations", len(values), len(observed.activations), "tokens")


def test_reading_stops_after_the_wanted_number(observed: Observed) -> None:
    few = list(token_values(observed.autoencoder, replace(observed.reading(), n_tokens=310)))
    assert sum(len(part.values) for part in few) == 310


def test_sides_are_each_others_negative_and_zero_at_rest(observed: Observed) -> None:
    known = observed.evidence.calibration
    at_rest = (known.signs * known.rest)[None]
    positive, negative = (away_from_rest(observed.evidence, side) for side in ("positive", "negative"))
    np.testing.assert_allclose(positive(at_rest), 0, atol=1e-6)
    some = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    np.testing.assert_array_equal(positive(some), -negative(some))


def test_evidence_about_other_weights_is_refused(observed: Observed) -> None:
    observed.evidence.check_weights(observed.autoencoder)
    other = BilinearAutoencoder(d_model=D_MODEL, n_latents=12)
    with pytest.raises(ValueError, match="about other weights"):
        observed.evidence.check_weights(other)


def test_an_autoencoder_in_training_mode_is_refused(observed: Observed) -> None:
    observed.autoencoder.train()
    try:
        with pytest.raises(ValueError, match=r"is in training mode.*call \.eval\(\)"):
            next(token_values(observed.autoencoder, observed.reading()))
    finally:
        observed.autoencoder.eval()


def test_activations_of_another_width_are_refused(observed: Observed) -> None:
    other = BilinearAutoencoder(d_model=8, n_latents=4).eval()
    with pytest.raises(ValueError, match="d_model=8"):
        next(token_values(other, observed.reading()))
    assert torch.is_grad_enabled()
