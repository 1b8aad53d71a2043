"""Rings, curves, branches and clusters show; blobs, lines and slabs do not."""

import numpy as np
import pytest

from benchmarks.structure import (
    Structure,
    alike,
    gaussian_like,
    leading_axes,
    nearest,
    order,
    random_axes,
    structure,
    thinness,
    whitened,
)

M = 600


def planted() -> dict[str, np.ndarray]:
    """Points on three axes, with scatter."""
    generator = np.random.default_rng(0)
    scatter = generator.normal(0, 0.05, (M, 3))
    t = generator.uniform(-1, 1, M)
    angle = np.pi * t
    ray = generator.integers(0, 3, M) * 2 * np.pi / 3
    length = np.abs(t)
    flat = np.zeros(M)
    return {
        "ring": np.stack([np.cos(angle), np.sin(angle), flat], 1) + scatter,
        "arc": np.stack([np.cos(angle / 2), np.sin(angle / 2), flat], 1) + scatter,
        "branches": np.stack([length * np.cos(ray), length * np.sin(ray), flat], 1) + scatter / 2,
        "blob": generator.normal(size=(M, 3)) * [3, 2, 1],
        "line": np.stack([t, flat, flat], 1) + scatter,
        "slab": generator.uniform(-1, 1, (M, 3)) * [1, 1, 0.1],
        "six clusters": 3 * np.vstack([np.eye(3), -np.eye(3)])[generator.integers(0, 6, M)]
        + generator.normal(0, 0.3, (M, 3)),
    }


POINTS = planted()


@pytest.mark.parametrize("name", ["ring", "arc", "branches"])
def test_curves_are_thin_closed_open_or_branched(name: str) -> None:
    assert thinness(POINTS[name]) > 0.8


@pytest.mark.parametrize("name", ["blob", "line", "slab", "six clusters"])
def test_what_is_no_curve_is_not_thin(name: str) -> None:
    assert thinness(POINTS[name]) < 0.65


@pytest.mark.parametrize("name", ["ring", "arc", "branches", "six clusters"])
def test_shapes_have_less_entropy_than_a_blob_of_their_covariance(name: str) -> None:
    control = order(gaussian_like(POINTS[name], np.random.default_rng(1)))
    assert order(POINTS[name]) > control + 0.3


@pytest.mark.parametrize(("name", "most"), [("blob", 0.1), ("line", 0.3), ("slab", 0.35)])
def test_blobs_lines_and_slabs_have_little(name: str, most: float) -> None:
    assert -0.1 < order(POINTS[name]) < most


def test_numbers_of_shape_do_not_depend_on_the_lengths_of_axes() -> None:
    stretched = POINTS["ring"] * [5, 0.2, 3] + [1, 2, 3]
    assert order(stretched) == pytest.approx(order(POINTS["ring"]))
    assert thinness(stretched) == pytest.approx(thinness(POINTS["ring"]))


def test_words_that_lie_together_are_seen_and_scattered_ones_are_chance() -> None:
    generator = np.random.default_rng(2)
    corners = generator.integers(0, 6, M)
    points = np.vstack([np.eye(3), -np.eye(3)])[corners] + generator.normal(0, 0.05, (M, 3))
    scattered = generator.integers(0, 6, M)
    found = structure(points, corners, scattered)
    assert found.words == pytest.approx(1)
    assert abs(found.next_words) < 0.05
    assert isinstance(found, Structure)


def test_tokens_without_a_next_word_are_left_out() -> None:
    generator = np.random.default_rng(3)
    corners = generator.integers(0, 2, M)
    points = np.stack([corners, corners, corners], 1) + generator.normal(0, 0.05, (M, 3))
    some = np.where(np.arange(M) % 3 == 0, -1, corners)
    assert structure(points, corners, some).next_words == pytest.approx(1)


def test_unequal_words_are_corrected_for_chance() -> None:
    generator = np.random.default_rng(4)
    labels = (generator.random(M) < 0.05).astype(np.int64)  # nearly always alike
    assert abs(alike(generator.normal(size=(M, 3)), labels)) < 0.1
    assert np.isnan(alike(generator.normal(size=(M, 3)), np.zeros(M, dtype=np.int64)))


def test_neighbours_are_others_also_among_copies() -> None:
    points = np.repeat(np.random.default_rng(5).normal(size=(20, 3)), 30, axis=0)
    near, distances = nearest(points, 10)
    assert (near != np.arange(600)[:, None]).all()
    assert (distances == 0).all()
    assert np.isfinite(order(points))


def test_few_points_and_flat_ones_have_no_number() -> None:
    flat = np.ones((M, 3))
    assert whitened(flat) is None
    for points in (flat, np.random.default_rng(0).normal(size=(8, 3))):
        assert np.isnan(order(points))
        assert np.isnan(thinness(points))


def test_axes_are_orthonormal_and_lead() -> None:
    generator = np.random.default_rng(6)
    tokens = generator.normal(size=(M, 12)) * np.linspace(3, 0.1, 12)
    direction = generator.normal(size=12)
    for axes in (leading_axes(tokens), leading_axes(tokens, direction), random_axes(12, generator)):
        np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
    assert abs(leading_axes(tokens, direction)[:, 0] @ direction) == pytest.approx(np.linalg.norm(direction))
    assert np.abs(leading_axes(tokens)[:3]).max(0).min() > 0.9
