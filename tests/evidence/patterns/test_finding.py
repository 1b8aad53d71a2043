"""Planted patterns are found by name in evidence."""

import dataclasses

import numpy as np
import pytest

from quadric.evidence import find_patterns
from quadric.evidence.clusters import clusters_of
from quadric.evidence.patterns.finding import firing_of
from quadric.evidence.record import MISSING
from tests.evidence.patterns.test_statistics import cluster, ray
from tests.evidence.test_clusters import BASE, GEOMETRY, N_POINTS, blobs, with_points

pytestmark = pytest.mark.slow

LATENTS = range(3)


def on_four_axes(points: np.ndarray) -> np.ndarray:
    return np.hstack([points, np.zeros((len(points), 1))])


def test_a_planted_cone_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter(range(10_000))
    monkeypatch.setattr(
        "quadric.evidence.patterns.finding.gaussian_points", lambda *_: on_four_axes(cluster(next(seeds), n=N_POINTS))
    )
    words = np.zeros(N_POINTS, dtype=int)
    found = find_patterns(with_points(on_four_axes(ray(0, n=N_POINTS)), words), GEOMETRY)
    assert found.counts()["cone"] == GEOMETRY.n_latents
    assert found.tests[0]["cone"].tokens == ("red",)
    assert found.tests[0]["cone"].corrected >= found.tests[0]["cone"].p_value
    assert found.n_heavy_tailed_cones == 0  # the stand-in for points of structureless tokens is round
    nothing = find_patterns(with_points(on_four_axes(cluster(0, n=N_POINTS)), words), GEOMETRY)
    assert nothing.counts()["cone"] == 0


def test_planted_clusters_are_those_of_the_search_for_clusters() -> None:
    points, which = blobs(5)
    found = find_patterns(with_points(points, which), GEOMETRY, latents=[1])
    test = found.tests[1]["cluster"]
    assert test.shown
    assert test.statistic == 5
    assert sorted(test.tokens) == ["Red", "blue", "green", "red", "yellow"]
    assert found.counts() == {"cone": 0, "cluster": 1, "interpolation": 0, "subset": 0}


def test_heavy_tails_without_structure_make_cones_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth draw of each latent is of heavy-tailed tokens."""
    seeds = iter(range(10_000))

    def points(*_: object) -> np.ndarray:
        seed = next(seeds)
        return on_four_axes((ray if seed % 5 == 4 else cluster)(seed, n=N_POINTS))

    monkeypatch.setattr("quadric.evidence.patterns.finding.gaussian_points", points)
    found = find_patterns(with_points(on_four_axes(cluster(0, n=N_POINTS)), np.zeros(N_POINTS, dtype=int)), GEOMETRY)
    assert found.n_heavy_tailed_cones == GEOMETRY.n_latents
    assert found.counts()["cone"] == 0


def test_clusters_that_are_known_are_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = with_points(*blobs(4))
    known = clusters_of(evidence, GEOMETRY)
    assert any(each.names for each in known.values())
    searched = find_patterns(evidence, GEOMETRY, latents=list(known))
    monkeypatch.setattr("quadric.evidence.patterns.finding.latent_clusters", None)
    assert repr(find_patterns(evidence, GEOMETRY, latents=list(known), clusters=known).tests) == repr(searched.tests)


def test_a_token_whose_context_decides_its_sign_is_a_subset() -> None:
    """Points alternate "blue red" and "green red"; the first kind of context fires the positive sign."""
    n_pairs = N_POINTS // 2
    first = np.arange(n_pairs) % 2 == 0
    words = np.empty(N_POINTS, dtype=int)
    words[0::2], words[1::2] = np.where(first, 2, 3), 0
    evidence = with_points(blobs(2)[0], words)
    values = np.zeros((BASE.n_latents, N_POINTS + 1), dtype=np.float32)
    values[:, 1:N_POINTS:2] = np.where(first, 5.0, -5.0)
    documents = np.arange(N_POINTS + 20_000, dtype=np.int32) // 2
    evidence = dataclasses.replace(
        evidence,
        points=dataclasses.replace(evidence.points, values=values),
        text=dataclasses.replace(evidence.text, documents=documents),
    )
    test = find_patterns(evidence, GEOMETRY, latents=[0]).tests[0]["subset"]
    assert test.shown
    assert (test.tokens, test.statistic) == (("red",), pytest.approx(1))


def test_copies_and_empty_latents_are_left_out() -> None:
    known = GEOMETRY.redundancy
    empty, copy_of = known.empty.clone(), known.copy_of.clone()
    empty[0], copy_of[2] = True, 1
    geometry = dataclasses.replace(GEOMETRY, redundancy=known._replace(empty=empty, copy_of=copy_of))
    assert list(find_patterns(with_points(*blobs(2)), geometry).tests) == [1, 3, 4, 5]


def test_the_same_seed_gives_the_same_patterns_and_progress_is_reported() -> None:
    evidence, steps = with_points(*blobs(3)), []
    one = find_patterns(evidence, GEOMETRY, latents=LATENTS, on_progress=lambda *step: steps.append(step))
    assert repr(one.tests) == repr(find_patterns(evidence, GEOMETRY, latents=LATENTS).tests)
    assert steps == [("patterns", done, 3, "") for done in range(4)]


def test_firing_points_are_the_strongest_first_and_those_above_the_threshold() -> None:
    found = firing_of(BASE, 2)
    places, values = np.asarray(BASE.points.places[2]), np.asarray(BASE.points.values[2])
    away = values - BASE.calibration.rest[2]
    threshold = BASE.settings.firing_rms * np.sqrt(BASE.statistics.mean_square[2])
    chosen = [row for row in np.argsort(-np.abs(away), kind="stable")
              if places[row] != MISSING and abs(away[row]) > threshold]  # fmt: skip
    assert chosen
    np.testing.assert_array_equal(found.tokens, BASE.text.token_ids[places[chosen]])
    np.testing.assert_array_equal(found.positive, away[chosen] > 0)
    np.testing.assert_array_equal(found.documents, BASE.text.documents[places[chosen]])


def test_bad_input_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"rate=5.0 is not a share between 0 and 1; give e.g. 0.05"):
        find_patterns(BASE, GEOMETRY, rate=5.0)
    with pytest.raises(ValueError, match=r"latent 99 is outside 0 … 5"):
        find_patterns(BASE, GEOMETRY, latents=[99])
    monkeypatch.setattr("quadric.evidence.patterns.finding.is_available", lambda: False)
    with pytest.raises(ValueError, match=r"pip install 'quadric\[site\]'"):
        find_patterns(BASE, GEOMETRY)
