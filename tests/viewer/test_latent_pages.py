"""A latent's page shows what the evidence and the weights hold."""

import numpy as np
import pytest

from quadric.geometry import read
from quadric.viewer.export import geometry_shown
from quadric.viewer.latent_pages import latent_record
from tests.evidence.streams import small_autoencoder
from tests.viewer.small_evidence import EVIDENCE, N_LATENTS, site_input


def test_a_page_holds_every_point_and_every_context_once() -> None:
    geometry = geometry_shown(site_input())
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, geometry, latent)
        contexts = EVIDENCE.contexts.places[latent]
        wanted = {*EVIDENCE.points.places[latent].tolist(), *contexts.ravel().tolist()} - {-1}
        assert len(record.places) == len(wanted)
        assert set(record.places.tolist()) == wanted
        assert (np.diff(np.abs(record.values - np.float32(record.rest))) <= 0).all()
        by_place = dict(zip(EVIDENCE.points.places[latent].tolist(), EVIDENCE.points.linear[latent], strict=True))
        for place, linear in zip(record.places.tolist(), record.linear, strict=True):
            assert linear == by_place.get(place, linear)
        shown = np.where(record.contexts >= 0, record.places[record.contexts], -1)
        np.testing.assert_array_equal(shown, contexts)
        np.testing.assert_array_equal(record.tokens, EVIDENCE.text.token_ids[record.places])
        in_context = record.coordinates[record.contexts[0, 0]]
        np.testing.assert_allclose(in_context, EVIDENCE.contexts.coordinates[latent, 0, 0], atol=1e-6)


def test_windows_stay_inside_their_sequence() -> None:
    geometry = geometry_shown(site_input())
    starts = EVIDENCE.text.sequence_starts.tolist()
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, geometry, latent)
        for place, window in zip(
            EVIDENCE.contexts.places[latent].ravel(), record.context_tokens.reshape(-1, 9), strict=True
        ):
            begin = max((start for start in starts if start <= place), default=0)
            around = [place + shift for shift in range(-4, 5)]
            inside = [place >= 0 and begin <= each < begin + 20 for each in around]
            expected = [EVIDENCE.text.token_ids[each] if ok else -1 for each, ok in zip(around, inside, strict=True)]
            assert window.tolist() == expected


def test_spectrum_and_neighbours_are_those_of_the_weights() -> None:
    geometry = geometry_shown(site_input())
    ae, centre = small_autoencoder(N_LATENTS), EVIDENCE.calibration.tokens_centre()
    for latent in range(N_LATENTS):
        record, sign = latent_record(EVIDENCE, geometry, latent), float(EVIDENCE.calibration.signs[latent])
        found = read(ae, latent, centre)
        values = sign * found.form.eigenvalues[found.form.eigenvalues.abs() > 1e-9]
        np.testing.assert_allclose(record.eigenvalues, values, rtol=1e-5, atol=1e-7)
        assert record.rank == len(values)
        assert record.total_weight == pytest.approx(values.abs().sum().item())
        assert record.constant == pytest.approx(sign * found.constant, abs=1e-9)
        assert record.curvature == pytest.approx(found.curvature, abs=1e-6)
        assert record.measured_curvature == EVIDENCE.statistics.curvature[latent]
        assert record.rest == EVIDENCE.calibration.rest[latent]
        np.testing.assert_array_equal(record.neighbours, geometry.neighbours.latents[latent])
