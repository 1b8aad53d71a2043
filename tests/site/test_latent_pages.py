"""A latent's page shows what the evidence and the weights hold."""

import numpy as np
import pytest

from quadric.geometry import neighbours, spectrum, statistics
from quadric.site.latent_pages import latent_record
from tests.evidence.streams import small_autoencoder
from tests.site.small_evidence import EVIDENCE, N_LATENTS


def test_a_page_holds_every_point_and_every_context_once() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, table, close, latent)
        contexts = EVIDENCE.contexts.places[latent]
        wanted = {*EVIDENCE.points.places[latent].tolist(), *contexts.ravel().tolist()} - {-1}
        assert len(record.places) == len(wanted)
        assert set(record.places.tolist()) == wanted
        assert (np.diff(np.abs(record.values)) <= 0).all()
        shown = np.where(record.contexts >= 0, record.places[record.contexts], -1)
        np.testing.assert_array_equal(shown, contexts)
        np.testing.assert_array_equal(record.tokens, EVIDENCE.text.token_ids[record.places])
        in_context = record.coordinates[record.contexts[0, 0]]
        np.testing.assert_array_equal(in_context, EVIDENCE.contexts.coordinates[latent, 0, 0])


def test_windows_stay_inside_their_sequence() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    starts = EVIDENCE.text.sequence_starts.tolist()
    for latent in range(N_LATENTS):
        record = latent_record(EVIDENCE, table, close, latent)
        for place, window in zip(
            EVIDENCE.contexts.places[latent].ravel(), record.context_tokens.reshape(-1, 9), strict=True
        ):
            begin = max((start for start in starts if start <= place), default=0)
            around = [place + shift for shift in range(-4, 5)]
            inside = [place >= 0 and begin <= each < begin + 20 for each in around]
            expected = [EVIDENCE.text.token_ids[each] if ok else -1 for each, ok in zip(around, inside, strict=True)]
            assert window.tolist() == expected


def test_spectrum_and_neighbours_are_those_of_the_weights() -> None:
    ae = small_autoencoder(N_LATENTS)
    table, close = statistics(ae), neighbours(ae)
    record = latent_record(EVIDENCE, table, close, 3)
    values = spectrum(ae, 3).eigenvalues
    np.testing.assert_allclose(record.eigenvalues, values, rtol=1e-5)
    assert record.rank == len(values)
    assert record.total_weight == pytest.approx(values.abs().sum().item())
    np.testing.assert_array_equal(record.neighbours, close.latents[3])
