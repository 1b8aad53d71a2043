"""One vectorized pass gives what the definition gives; parts, batches and interruptions leave no trace."""

import dataclasses

import numpy as np
import pytest
import torch

from quadric.autoencoders.objective import hoyer_density
from quadric.evidence import Collector, Evidence, EvidenceSettings, evidence_of, gather, memory_need, merge
from quadric.geometry import spectrum
from tests.evidence import naive
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder

SETTINGS = EvidenceSettings(n_points=15, n_contexts=3, n_axes=4, window=1, n_lift_tokens=2)
TEXT = RandomText(30)


def collected(batch: int = 64, rank: int = 0, world_size: int = 1, settings: EvidenceSettings = SETTINGS) -> Collector:
    collector = Collector(small_autoencoder(), settings)
    stream = RandomStream(TEXT, batch, rank=rank, world_size=world_size)
    gather(collector, stream, TEXT, n_tokens=10**9)
    return collector


def finished(collector: Collector) -> Evidence:
    return evidence_of(collector, TEXT, PROVENANCE.for_hook_point(HOOK), [])


def assert_same(first: Evidence, second: Evidence) -> None:
    """Equal to the bit, but for sums of floats, whose last bits depend on their order."""
    for part in ("text", "points", "contexts", "statistics"):
        for field in dataclasses.fields(getattr(first, part)):
            one, other = (getattr(getattr(each, part), field.name) for each in (first, second))
            if isinstance(one, np.ndarray) and one.dtype == np.float32:
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6, err_msg=f"{part}.{field.name}")
            else:
                np.testing.assert_array_equal(one, other, err_msg=f"{part}.{field.name}")
    assert first.labels == second.labels
    assert first.n_tokens == second.n_tokens


def test_the_draw_is_the_naive_draw() -> None:
    evidence, stream = finished(collected()), RandomStream(TEXT, 1)
    values = naive.all_values(small_autoencoder(), stream)
    for latent in range(evidence.n_latents):
        expected = naive.draw(values, stream, latent, SETTINGS)
        starts = evidence.text.sequence_starts
        assert [starts[p.sequence] + p.position for p in expected] == evidence.points.places[latent].tolist()
        np.testing.assert_allclose([p.value for p in expected], evidence.points.values[latent], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [7, 64, 10_000])
def test_contexts_are_the_strongest_with_different_windows(batch: int) -> None:
    evidence, stream = finished(collected(batch)), RandomStream(TEXT, 1)
    values = naive.all_values(small_autoencoder(), stream)
    for latent in range(evidence.n_latents):
        for column, sign in enumerate((1, -1)):
            expected = naive.contexts(values, stream, TEXT, latent, sign, SETTINGS)
            places = [evidence.text.sequence_starts[p.sequence] + p.position for p in expected]
            found = evidence.contexts.places[latent, column]
            assert found[: len(places)].tolist() == places
            assert (found[len(places) :] == -1).all()


def test_many_copies_of_one_text_hide_no_other_context() -> None:
    text = RandomText(40)
    text.tokens[:] = text.tokens[0]
    text.tokens[3, 5] = 2 if text.tokens[0, 5] != 2 else 1
    collector = Collector(small_autoencoder(), SETTINGS)
    gather(collector, RandomStream(text, 10_000), text, n_tokens=10**9)
    evidence, stream = evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), []), RandomStream(text, 1)
    values = naive.all_values(small_autoencoder(), stream)
    for latent in range(evidence.n_latents):
        expected = naive.contexts(values, stream, text, latent, 1, SETTINGS)
        places = [evidence.text.sequence_starts[p.sequence] + p.position for p in expected]
        assert evidence.contexts.places[latent, 0].tolist()[: len(places)] == places


def test_coordinates_are_those_on_the_leading_eigenvectors_up_to_their_signs() -> None:
    evidence, stream, ae = finished(collected()), RandomStream(TEXT, 1), small_autoencoder()
    unit = stream.vectors / stream.vectors.norm(dim=1, keepdim=True)
    place = {(s, p): row for row, (s, p) in enumerate(zip(stream.sequences, stream.positions, strict=True))}
    numbers = np.searchsorted(evidence.text.sequence_starts, evidence.points.places, side="right") - 1
    for latent in range(evidence.n_latents):
        values, vectors = spectrum(ae, latent)
        for point in range(SETTINGS.n_points):
            sequence = numbers[latent, point]
            position = evidence.points.places[latent, point] - evidence.text.sequence_starts[sequence]
            expected = (unit[place[sequence, position]].double() @ vectors[:, : SETTINGS.n_axes]).abs().numpy()
            found = np.abs(evidence.points.coordinates[latent, point])
            np.testing.assert_allclose(found[: len(expected)], expected, atol=1e-5)
            assert (found[len(expected) :] == 0).all()
            if len(values) <= SETTINGS.n_axes:
                energy = (values.numpy() * evidence.points.coordinates[latent, point][: len(values)] ** 2).sum().item()
                assert energy == pytest.approx(evidence.points.values[latent, point], abs=1e-5)


def test_statistics_are_those_of_all_tokens() -> None:
    evidence, stream, ae = finished(collected()), RandomStream(TEXT, 1), small_autoencoder()
    values = naive.all_values(ae, stream)
    found = evidence.statistics
    density = hoyer_density(torch.from_numpy(values.T), ae.offset.detach())
    np.testing.assert_allclose(found.density, density, rtol=1e-4)
    np.testing.assert_allclose(found.mean_square, (values**2).mean(1), rtol=1e-4)
    positive = np.where(values > 0, values**2, 0).sum(1) / (values**2).sum(1)
    np.testing.assert_allclose(found.positive_share, positive, rtol=1e-4)
    exact = np.quantile(values, found.probabilities, axis=1).T
    spread = values.std(1, keepdims=True)
    assert (np.abs(found.quantiles - exact)[:, 2:-2] <= np.abs(exact)[:, 2:-2] / 16 + 0.05 * spread).all()
    limits = SETTINGS.firing_rms * np.sqrt((values**2).mean(1, keepdims=True))
    np.testing.assert_allclose(found.firing_share, (np.abs(values) > limits).mean(1), atol=0.02)


def test_the_control_is_one_orthonormal_frame_for_all_latents() -> None:
    evidence = finished(collected())
    by_place: dict[int, np.ndarray] = {}
    for places, control in zip(evidence.points.places, evidence.points.control, strict=True):
        for place, coordinates in zip(places.tolist(), control, strict=True):
            np.testing.assert_array_equal(by_place.setdefault(place, coordinates), coordinates)
    frame = Collector(small_autoencoder(), SETTINGS).frame
    np.testing.assert_allclose(frame.T @ frame, np.eye(3), atol=1e-6)


@pytest.mark.parametrize("batch", [3, 13, 10_000])
def test_the_size_of_batches_changes_nothing(batch: int) -> None:
    assert_same(finished(collected(batch)), finished(collected(64)))


@pytest.mark.parametrize("world_size", [2, 3])
def test_merged_parts_are_one_pass(world_size: int) -> None:
    parts = [collected(rank=rank, world_size=world_size) for rank in range(world_size)]
    assert_same(finished(merge(*parts)), finished(collected()))
    backwards = [collected(rank=rank, world_size=world_size) for rank in reversed(range(world_size))]
    assert_same(finished(merge(*backwards)), finished(collected()))


def test_parts_that_share_tokens_or_differ_in_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens are in both parts"):
        merge(collected(), collected())
    other = collected(settings=dataclasses.replace(SETTINGS, seed=1))
    with pytest.raises(ValueError, match="different settings"):
        merge(collected(), other)


def test_a_latent_that_never_fires_has_points_and_no_label() -> None:
    ae = small_autoencoder(4, prior="atomic")
    with torch.no_grad():
        ae.left[2] = 0
    collector = Collector(ae, SETTINGS)
    gather(collector, RandomStream(TEXT, 50), TEXT, n_tokens=10**9)
    evidence = finished(collector)
    assert (evidence.points.places[2] >= 0).all()
    assert (evidence.points.values[2] == 0).all()
    assert (evidence.contexts.places[2] == -1).all()
    assert evidence.labels.texts[2] == ""
    assert evidence.statistics.positive_share[2] == 0.5
    assert all(np.isfinite(column).all() for column in (evidence.statistics.quantiles, evidence.statistics.density))


def test_fewer_tokens_than_points_leave_places_free_at_the_end() -> None:
    settings = dataclasses.replace(SETTINGS, n_points=10_000)
    evidence = finished(collected(settings=settings))
    n = len(RandomStream(TEXT, 1))
    assert (evidence.points.places[:, :n] >= 0).all()
    assert (evidence.points.places[:, n:] == -1).all()
    assert evidence.n_tokens == n


def test_memory_is_predicted() -> None:
    collector = collected()
    need = memory_need(
        d_model=12, n_latents=6, n_hidden=10, n_tokens=collector.n_tokens, batch_tokens=64, settings=SETTINGS
    )
    kept = sum(array.nbytes for array in collector.arrays().values()) + collector.axes.numel() * 4
    assert need.kept == pytest.approx(kept, rel=0.02)
    result = sum(array.nbytes for array in vars(finished(collector).points).values())
    assert need.result >= result


def test_no_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token was scored"):
        finished(Collector(small_autoencoder(), SETTINGS))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"n_points": 0}, "n_points=0"),
        ({"window": 65}, "window=65"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"firing_rms": 0.0}, "firing_rms"),
    ],
)
def test_settings_that_mean_nothing_are_refused(change: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        EvidenceSettings(**change)
