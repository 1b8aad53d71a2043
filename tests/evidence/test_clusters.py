"""Clusters are found where they were planted, and not among points that only look grouped."""

import dataclasses

import numpy as np
import pytest
import torch

from quadric.evidence import Evidence, TextRead
from quadric.evidence.clusters import (
    MADE_BY_DRAW,
    ClusterNames,
    clusters_of,
    gaussian_points,
    grouping,
    groups,
    stable_groups,
)
from quadric.evidence.record import MISSING
from quadric.geometry import dictionary_geometry, with_signs
from tests.evidence.streams import small_autoencoder
from tests.evidence.test_collector import SETTINGS, collected, finished

N_POINTS = 400
WORDS = [b" red", b" Red", b" blue", b" green", b" yellow", b" the"]


def blobs(n_blobs: int, spread: float = 0.02, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points about the corners of an octahedron, and which corner each is about."""
    generator = np.random.default_rng(seed)
    which = generator.integers(0, n_blobs, N_POINTS)
    corners = np.vstack([np.eye(4), -np.eye(4)])
    return (corners[which] + generator.normal(0, spread, (N_POINTS, 4))).astype(np.float32), which


def test_planted_groups_are_found_with_their_members_and_are_stable() -> None:
    points, which = blobs(4)
    found = grouping(points, np.random.default_rng(0))
    assert found.n_stable == len(found.stability) == 4
    assert (found.stability > 0.95).all()
    for group in range(4):
        assert len(set(which[found.members == group])) == 1
    assert (np.diff(np.bincount(found.members[found.members >= 0])) <= 0).all()  # largest first


def test_one_blob_has_no_two_stable_groups() -> None:
    points = np.random.default_rng(1).normal(0, 1, (N_POINTS, 4)).astype(np.float32)
    assert grouping(points, np.random.default_rng(0)).n_stable < 2


def test_groups_of_noise_do_not_survive_resampling() -> None:
    noise = np.random.default_rng(3).uniform(-1, 1, (N_POINTS, 2)).astype(np.float32)
    found = grouping(noise, np.random.default_rng(0))
    assert len(found.stability) > 2  # HDBSCAN alone would call them clusters
    assert found.n_stable == 0


def test_too_few_points_and_points_without_axes_are_no_groups() -> None:
    for points in (np.ones((3, 2)), np.zeros((100, 3)), np.empty((0, 2))):
        assert (groups(points.astype(np.float32)) == -1).all()


def test_the_bound_of_a_control_is_exact_where_it_matters() -> None:
    points, _ = blobs(3)
    assert stable_groups(points, 3, np.random.default_rng(0)) == 3
    assert stable_groups(points, 9, np.random.default_rng(0)) == 3


# A dictionary whose evidence is replaced by planted points.
BASE = finished(collected())
GEOMETRY = with_signs(
    dictionary_geometry(small_autoencoder(), moments=BASE.calibration.tokens_centre()),
    torch.from_numpy(np.array(BASE.calibration.signs)),
)
TOKENS = np.random.default_rng(5).standard_normal((5_000, 4)).astype(np.float32)


def with_points(coordinates: np.ndarray, words: np.ndarray) -> Evidence:
    """Evidence in which every latent has these points, of these words; a last slot of each is free."""
    k = BASE.n_latents
    places = np.append(np.arange(N_POINTS), MISSING)
    points = dataclasses.replace(
        BASE.points,
        places=np.tile(places, (k, 1)),
        values=np.zeros((k, N_POINTS + 1), dtype=np.float32),
        coordinates=np.tile(np.vstack([coordinates, np.zeros((1, 4))]).astype(np.float32), (k, 1, 1)),
        linear=np.zeros((k, N_POINTS + 1), dtype=np.float32),
        control=np.tile(np.random.default_rng(2).normal(0, 1, (N_POINTS + 1, 3)).astype(np.float32), (k, 1, 1)),
    )
    text = TextRead(
        token_ids=np.concatenate([words, np.full(20_000, 5)]).astype(np.int32),
        sequence_starts=np.array([0]),
        documents=np.zeros(N_POINTS + 20_000, dtype=np.int32),
        vocabulary=WORDS,
    )
    alive = np.ones(k, dtype=np.float32)
    statistics = dataclasses.replace(BASE.statistics, curvature=alive, density=0 * alive, mean_square=alive)
    settings = dataclasses.replace(SETTINGS, n_points=N_POINTS + 1)
    return dataclasses.replace(BASE, settings=settings, text=text, points=points, statistics=statistics, n_tokens=5_000)


def test_a_latent_with_planted_clusters_has_them_by_name() -> None:
    points, which = blobs(5)
    found = clusters_of(with_points(points, which), GEOMETRY, count=2)
    assert len(found) == 2
    for each in found.values():
        assert sorted(each.names) == ["Red", "blue", "green", "red", "yellow"]
        assert (each.stability > 0.9).all()
        assert each.n_stable == 5 > each.n_control
        assert each.members[-1] == MISSING
        for cluster, name in enumerate(each.names):
            words = {WORDS[which[point]].decode().strip() for point in np.flatnonzero(each.members == cluster)}
            assert words == {name}


def test_two_lobes_are_no_clusters() -> None:
    points, which = blobs(MADE_BY_DRAW)
    (found,) = clusters_of(with_points(points, which), GEOMETRY, count=1).values()
    assert (found.names, found.n_stable) == ([], MADE_BY_DRAW)
    assert (found.members == MISSING).all()


def test_what_a_control_has_too_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    points, which = blobs(3)
    evidence = with_points(points, which)
    monkeypatch.setattr("quadric.evidence.clusters.gaussian_points", lambda *_: blobs(3, seed=9)[0])
    (found,) = clusters_of(evidence, GEOMETRY, count=1).values()
    assert (found.names, found.n_stable, found.n_control) == ([], 3, 3)


def test_points_of_gaussian_tokens_have_no_clusters() -> None:
    generator = np.random.default_rng(7)
    for latent in range(3):
        points = gaussian_points(BASE, GEOMETRY, latent, TOKENS, N_POINTS, generator)
        evidence = with_points(points, generator.integers(0, 3, N_POINTS))
        (found,) = clusters_of(evidence, GEOMETRY, count=1).values()
        assert found.names == []


def test_gaussian_points_have_the_covariance_of_the_tokens_and_the_weights_of_the_draw() -> None:
    everything = gaussian_points(BASE, GEOMETRY, 1, TOKENS, len(TOKENS), np.random.default_rng(0))
    axes = GEOMETRY.axes[1, :, :4].double().numpy()
    np.testing.assert_allclose(
        np.cov(everything.T, bias=True), axes.T @ BASE.calibration.covariance @ axes, atol=0.1 * everything.var()
    )
    drawn = gaussian_points(BASE, GEOMETRY, 1, TOKENS, 200, np.random.default_rng(0))
    quadratic, linear = (each[1, :4].numpy() for each in (GEOMETRY.axis_quadratic, GEOMETRY.axis_linear))
    usual, chosen = _z(everything, quadratic, linear), _z(drawn, quadratic, linear)
    away = np.abs(np.stack([usual[:200], chosen]) - np.median(usual))
    assert np.median(away[1]) > 1.8 * np.median(away[0])


def test_gaussian_points_of_a_direction_are_drawn_from_the_side_on_which_it_fires() -> None:
    """A form is drawn from both tails about its median; a gated direction from one."""
    flat = dataclasses.replace(
        GEOMETRY,
        axis_quadratic=torch.zeros_like(GEOMETRY.axis_quadratic),
        axis_linear=torch.eye(GEOMETRY.axis_linear.shape[1], dtype=torch.float64)[:1].expand(GEOMETRY.n_latents, -1),
        constant=torch.zeros(GEOMETRY.n_latents),
    )
    gated = dataclasses.replace(flat, is_linear=True)
    both, one = (gaussian_points(BASE, each, 1, TOKENS, 200, np.random.default_rng(0))[:, 0] for each in (flat, gated))
    assert 0.3 < (both > 0).mean() < 0.7
    assert (one > 0).mean() > 0.97


def _z(points: np.ndarray, quadratic: np.ndarray, linear: np.ndarray) -> np.ndarray:
    return np.asarray(np.square(points) @ quadratic + points @ linear)


def test_the_same_seed_gives_the_same_clusters_and_progress_is_reported() -> None:
    evidence, steps = with_points(*blobs(3)), []
    one = clusters_of(evidence, GEOMETRY, count=2, on_progress=lambda *step: steps.append(step))
    other = clusters_of(evidence, GEOMETRY, count=2)
    assert steps == [("clusters", done, 2, "") for done in range(3)]
    for latent in one:
        np.testing.assert_array_equal(one[latent].members, other[latent].members)
        np.testing.assert_array_equal(one[latent].stability, other[latent].stability)


def test_latents_of_no_worth_are_not_searched() -> None:
    evidence = with_points(*blobs(3))
    dense = dataclasses.replace(evidence.statistics, density=np.array([0.9] * 5 + [0], dtype=np.float32))
    assert list(clusters_of(dataclasses.replace(evidence, statistics=dense), GEOMETRY, count=6)) == [5]


def test_names_keep_case_apart_and_say_what_comes_before() -> None:
    text = TextRead(
        token_ids=np.array([5, 0, 5, 1, 5, 0, 5, 1, *[2] * 500], dtype=np.int32),
        sequence_starts=np.array([0]),
        documents=np.zeros(508, dtype=np.int32),
        vocabulary=WORDS,
    )
    assert ClusterNames(text).of([np.array([1, 5]), np.array([3, 7])]) == ["red", "Red"]
    assert ClusterNames(text).of([]) == []


def test_without_scikit_learn_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadric.evidence.clusters.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'quadric\[site\]'"):
        clusters_of(BASE, GEOMETRY)
