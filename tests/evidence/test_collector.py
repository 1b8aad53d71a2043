"""One vectorized pass gives what the definition gives; parts, batches and interruptions leave no trace."""

import dataclasses

import numpy as np
import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.evidence import Evidence, EvidenceSettings
from quadric.evidence.collecting import gather
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.geometry import Centre, Decomposition, decompose, with_signs
from quadric.model.objective import hoyer_density
from tests.evidence import naive
from tests.evidence.streams import HOOK, PROVENANCE, RandomStream, RandomText, small_autoencoder

SETTINGS = EvidenceSettings(n_points=15, n_contexts=3, n_axes=4, window=1, n_lift_tokens=2, n_calibration_tokens=40)
TEXT = RandomText(30)
LENSES = ["paper", "affine"]


def collected(
    batch: int = 64,
    settings: EvidenceSettings = SETTINGS,
    lens: str = "paper",
) -> Collector:
    collector = Collector(small_autoencoder(lens=lens), settings)
    gather([collector], RandomStream(TEXT, batch), TEXT, n_tokens=10**9)
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


@pytest.mark.parametrize("lens", LENSES)
def test_the_calibration_is_the_naive_one(lens: str) -> None:
    ae, stream = small_autoencoder(lens=lens), RandomStream(TEXT, 1)
    known, found = naive.calibration(ae, stream, SETTINGS), finished(collected(lens=lens)).calibration
    assert found.n_tokens == 40
    np.testing.assert_allclose(found.centre, known.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, known.covariance, atol=1e-6)
    np.testing.assert_array_equal(found.signs, known.signs)
    np.testing.assert_allclose(found.rest, known.rest, atol=1e-6)
    v = naive.coordinates(ae, stream, SETTINGS)[:40]
    values = known.signs[:, None] * naive.raw_values(ae, stream)[:, :40]
    covariance = np.cov(v.T, bias=True)
    ridge = 0.1 * 12 / 40 * np.trace(covariance) / 12
    cross = (v - v.mean(0)).T @ (values - values.mean(1, keepdims=True)).T / 40
    slopes = np.linalg.solve(covariance + ridge * np.eye(12), cross).T
    np.testing.assert_allclose(found.linear, slopes / np.linalg.norm(slopes, axis=1, keepdims=True), atol=1e-4)


def test_the_side_with_more_energy_is_positive() -> None:
    ae = small_autoencoder()
    whole = dataclasses.replace(SETTINGS, n_calibration_tokens=10**6)
    collector = Collector(ae, whole)
    gather([collector], RandomStream(TEXT, 64), TEXT, n_tokens=10**9)
    found = finished(collector)
    assert set(found.calibration.signs.tolist()) == {1.0, -1.0}
    assert (found.statistics.positive_share >= 0.5 - 1e-4).all()
    turned = small_autoencoder()
    with torch.no_grad():
        (turned.mixing.weight if hasattr(turned.mixing, "weight") else turned.mixing.values).neg_()
        turned.offset.neg_()
    other = Collector(turned, whole)
    gather([other], RandomStream(TEXT, 64), TEXT, n_tokens=10**9)
    np.testing.assert_array_equal(finished(other).calibration.signs, -found.calibration.signs)
    assert_same(finished(other), found)


@pytest.mark.parametrize("lens", LENSES)
def test_the_draw_is_the_naive_draw(lens: str) -> None:
    evidence, stream = finished(collected(lens=lens)), RandomStream(TEXT, 1)
    values = naive.all_values(small_autoencoder(lens=lens), stream, SETTINGS)
    for latent in range(evidence.n_latents):
        expected = naive.draw(values, stream, latent, SETTINGS)
        starts = evidence.text.sequence_starts
        assert [starts[p.sequence] + p.position for p in expected] == evidence.points.places[latent].tolist()
        away = evidence.points.values[latent] - evidence.calibration.rest[latent]
        np.testing.assert_allclose([p.value for p in expected], away, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [7, 64, 10_000])
def test_contexts_are_the_strongest_with_different_windows(batch: int) -> None:
    evidence, stream = finished(collected(batch)), RandomStream(TEXT, 1)
    values = naive.all_values(small_autoencoder(), stream, SETTINGS)
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
    gather([collector], RandomStream(text, 10_000), text, n_tokens=10**9)
    evidence, stream = evidence_of(collector, text, PROVENANCE.for_hook_point(HOOK), []), RandomStream(text, 1)
    values = naive.all_values(small_autoencoder(), stream, SETTINGS)
    for latent in range(evidence.n_latents):
        expected = naive.contexts(values, stream, text, latent, 1, SETTINGS)
        places = [evidence.text.sequence_starts[p.sequence] + p.position for p in expected]
        assert evidence.contexts.places[latent, 0].tolist()[: len(places)] == places


@pytest.mark.parametrize("lens", LENSES)
def test_coordinates_are_those_on_the_axes_about_the_centre(lens: str) -> None:
    evidence, stream, ae = finished(collected(lens=lens)), RandomStream(TEXT, 1), small_autoencoder(lens=lens)
    v = naive.coordinates(ae, stream, SETTINGS)
    place = {(s, p): row for row, (s, p) in enumerate(zip(stream.sequences, stream.positions, strict=True))}
    numbers = np.searchsorted(evidence.text.sequence_starts, evidence.points.places, side="right") - 1
    geometry = decompose(ae, SETTINGS.n_axes, centre=evidence.calibration.tokens_centre())
    for latent in range(evidence.n_latents):
        positions = evidence.points.places[latent] - evidence.text.sequence_starts[numbers[latent]]
        rows = [place[pair] for pair in zip(numbers[latent], positions, strict=True)]
        expected = v[rows] @ geometry.axes[latent].double().numpy()
        np.testing.assert_allclose(evidence.points.coordinates[latent], expected, atol=1e-5)
        linear = v[rows] @ evidence.calibration.linear[latent]
        np.testing.assert_allclose(evidence.points.linear[latent], linear, atol=1e-5)


def test_coordinates_and_coefficients_give_the_value_back() -> None:
    """Where the axes hold the whole form, z = Σ(axis_quadratic ξ² + axis_linear ξ) + constant at every point."""
    settings = dataclasses.replace(SETTINGS, n_axes=12)
    evidence, ae = finished(collected(settings=settings, lens="affine")), small_autoencoder(lens="affine")
    signs = torch.from_numpy(evidence.calibration.signs)
    shown = with_signs(decompose(ae, 12), signs)
    whole = [latent for latent in range(6) if _frame_is_complete(ae, latent, shown)]
    assert whole
    for latent in whole:
        along = evidence.points.coordinates[latent].astype(float)
        value = along**2 @ shown.axis_quadratic[latent].numpy() + along @ shown.axis_linear[latent].numpy()
        np.testing.assert_allclose(value + float(shown.constant[latent]), evidence.points.values[latent], atol=1e-5)


def _frame_is_complete(ae: BilinearAutoencoder, latent: int, shown: Decomposition) -> bool:
    """Whether the axes are eigenvectors that hold the linear part too."""
    form, axes = ae.form(latent).double(), shown.axes[latent].double()
    linear = form[:-1, -1]
    rest = linear - axes @ (axes.mT @ linear)
    only_eigenvectors = bool((shown.axis_kind[latent] != 1).all())
    return only_eigenvectors and float(rest.norm()) < 1e-6 * float(linear.norm())


@pytest.mark.parametrize("lens", LENSES)
def test_statistics_are_those_of_all_tokens(lens: str) -> None:
    evidence, stream, ae = finished(collected(lens=lens)), RandomStream(TEXT, 1), small_autoencoder(lens=lens)
    values, rest = naive.all_values(ae, stream, SETTINGS), evidence.calibration.rest[:, None]
    found = evidence.statistics
    unit_length = ae.encode_prepared(naive.unit_vectors(stream)).detach()
    density = hoyer_density(unit_length, ae.offset.detach())
    np.testing.assert_allclose(found.density, density, rtol=1e-4)
    np.testing.assert_allclose(found.mean_square, (values**2).mean(1), rtol=1e-4)
    positive = np.where(values > 0, values**2, 0).sum(1) / (values**2).sum(1)
    np.testing.assert_allclose(found.positive_share, positive, rtol=1e-4)
    exact = np.quantile(values, found.probabilities, axis=1).T
    spread = values.std(1, keepdims=True)
    assert (np.abs(found.quantiles - rest - exact)[:, 2:-2] <= np.abs(exact)[:, 2:-2] / 16 + 0.05 * spread).all()
    limits = SETTINGS.firing_rms * np.sqrt((values**2).mean(1, keepdims=True))
    np.testing.assert_allclose(found.firing_share, (np.abs(values) > limits).mean(1), atol=0.02)
    predicted = naive.coordinates(ae, stream, SETTINGS) @ evidence.calibration.linear.T
    curvature = [1 - np.corrcoef(values[i], predicted[:, i])[0, 1] ** 2 for i in range(6)]
    np.testing.assert_allclose(found.curvature, curvature, atol=1e-4)


def test_a_linear_latent_is_measured_as_one() -> None:
    """c·b·v has no curvature, and its best linear predictor is b; a square of a coordinate is nearly all curved."""
    ae = small_autoencoder(2, prior="atomic", lens="affine")
    with torch.no_grad():
        for factors in (ae.left, ae.right):
            factors.zero_()
        ae.left[0, 3], ae.right[0, 12] = 1, 1
        ae.left[1, 0], ae.right[1, 0] = 1, 1
    settings = dataclasses.replace(SETTINGS, n_calibration_tokens=10_000)
    collector = Collector(ae, settings)
    gather([collector], RandomStream(RandomText(300), 500), RandomText(300), n_tokens=10**9)
    found = evidence_of(collector, RandomText(300), PROVENANCE.for_hook_point(HOOK), [])
    assert found.statistics.curvature[0] < 1e-3
    assert abs(found.calibration.linear[0, 3]) > 0.999
    assert found.statistics.curvature[1] > 0.1


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


def test_a_latent_that_never_fires_has_points_and_no_label() -> None:
    ae = small_autoencoder(4, prior="atomic")
    with torch.no_grad():
        ae.left[2] = 0
    collector = Collector(ae, SETTINGS)
    gather([collector], RandomStream(TEXT, 50), TEXT, n_tokens=10**9)
    evidence = finished(collector)
    assert (evidence.points.places[2] >= 0).all()
    assert (evidence.points.values[2] == 0).all()
    assert (evidence.contexts.places[2] == -1).all()
    assert evidence.labels.texts[2] == ""
    assert evidence.statistics.positive_share[2] == 0.5
    assert evidence.statistics.density[2] == evidence.statistics.curvature[2] == 0
    assert all(np.isfinite(column).all() for column in (evidence.statistics.quantiles, evidence.statistics.density))


def test_fewer_tokens_than_points_leave_places_free_at_the_end() -> None:
    settings = dataclasses.replace(SETTINGS, n_points=10_000)
    evidence = finished(collected(settings=settings))
    n = len(RandomStream(TEXT, 1))
    assert (evidence.points.places[:, :n] >= 0).all()
    assert (evidence.points.places[:, n:] == -1).all()
    assert evidence.n_tokens == n


def test_a_geometry_is_used_only_if_it_is_about_the_centre_of_the_tokens() -> None:
    ae, known = small_autoencoder(), collected().calibration
    asked: list[Centre] = []

    def geometry_of(centre: Centre) -> Decomposition:
        asked.append(centre)
        return decompose(ae, SETTINGS.n_axes, centre=centre)

    geometries = (decompose(ae, SETTINGS.n_axes), geometry_of, None)
    about_origin, by_function, without = (Collector(ae, SETTINGS, geometry) for geometry in geometries)
    for collector in (about_origin, by_function, without):
        collector.use(known)
    assert len(asked) == 1
    assert torch.equal(about_origin.axes, by_function.axes)
    assert torch.equal(about_origin.axes, without.axes)
    assert not torch.equal(about_origin.axes[..., :-1], decompose(ae, SETTINGS.n_axes).axes)


def test_a_collector_without_calibration_says_so() -> None:
    with pytest.raises(ValueError, match="not calibrated"):
        Collector(small_autoencoder(), SETTINGS).update(torch.ones(1, 12), np.zeros(1, int), np.zeros(1, np.uint64))


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
