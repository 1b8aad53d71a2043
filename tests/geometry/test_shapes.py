"""Shapes from signatures, and level sets whose axes really reach the threshold."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.geometry import SHAPES, level_set, shape_of, spectrum
from quadric.geometry.shapes import largest_shares, read_shapes
from quadric.geometry.spectra import Eigenpairs
from quadric.viewer import schema
from tests.geometry.examples import orthonormal, planted_shapes


@pytest.mark.parametrize(
    ("values", "kind", "figure", "dimension", "sign"),
    [
        ([], "empty", "empty", 0, 0),
        ([0.0, 0.0], "empty", "empty", 0, 0),
        ([2.0], "slab", "slab", 1, 1),
        ([-2.0, 0.0], "slab", "slab", 1, -1),
        ([1.0, 1.0], "ellipsoid", "circle", 2, 1),
        ([-1.0, -1.0], "ellipsoid", "circle", 2, -1),
        ([4.0, 1.0], "ellipsoid", "ellipse", 2, 1),
        ([1.0, 1.0, 1.0], "ellipsoid", "sphere", 3, 1),
        ([3.0, 2.0, 1.0], "ellipsoid", "ellipsoid", 3, 1),
        ([1.0] * 5, "ellipsoid", "ellipsoid", 5, 1),
        ([1.0, -1.0], "hyperboloid", "hyperbola", 2, 0),
        ([1.0, 1.0, -0.2], "hyperboloid", "hyperboloid", 3, 0),
        ([1.0, 1.0, -0.1], "ellipsoid", "circle", 2, 1),
    ],
)
def test_shapes(values, kind, figure, dimension, sign):
    shape = shape_of(torch.tensor(values, dtype=torch.float64))
    assert (shape.kind, shape.figure, shape.dimension, shape.sign) == (kind, figure, dimension, sign)


def test_the_tolerance_decides_what_counts_and_is_recorded():
    values = torch.tensor([1.0, -0.2])  # the second has 4 % of the variance
    assert shape_of(values).kind == "hyperboloid"
    coarse = shape_of(values, tolerance=0.1)
    assert (coarse.kind, coarse.tolerance) == ("slab", 0.1)
    assert shape_of(torch.tensor([1.0, -1e-12]), tolerance=0.0).kind == "hyperboloid"
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="tolerance="):
            shape_of(values, wrong)


@given(st.lists(st.floats(0.1, 5) | st.floats(-5, -0.1), min_size=1, max_size=6), st.sampled_from([-2.0, 0.5, 3.0]))
@settings(max_examples=60)
def test_axes_end_on_the_level_set(values, threshold):
    eigenvalues = torch.tensor(values, dtype=torch.float64)
    axes = orthonormal(8, len(values))
    matrix = (axes * eigenvalues) @ axes.mT
    found = level_set(Eigenpairs(eigenvalues, axes), threshold, tolerance=0.0)
    ends = found.axes * found.radii
    reached = torch.einsum("dr,de,er->r", ends, matrix, ends)
    # An axis of the other sign never meets the set; its conjugate radius reaches the opposite threshold.
    torch.testing.assert_close(reached, torch.where(found.meets, threshold, -threshold).double())
    assert bool(found.meets.any()) == bool((eigenvalues * threshold > 0).any())


def test_an_ellipses_points_satisfy_its_equation():
    ae = planted_shapes()
    found = level_set(spectrum(ae, 5), -2.0)
    assert found.radii.tolist() == pytest.approx([0.5**0.5, 2**0.5], abs=1e-6)
    angle = torch.linspace(0, 6.28, 50, dtype=torch.float64)
    weights = torch.stack([angle.cos(), angle.sin()], dim=1) * found.radii
    points = weights @ found.axes.mT
    values = torch.einsum("nd,de,ne->n", points, ae.form(5).double(), points)
    torch.testing.assert_close(values, torch.full_like(values, -2.0), atol=1e-5, rtol=0)


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.05, 0.3]),
)
@settings(max_examples=100, deadline=None)
def test_what_counts_is_the_fewest_largest_that_leave_out_at_most_the_tolerance(sizes, tolerance):
    weights = torch.tensor([sizes], dtype=torch.float64)
    counted = largest_shares(weights, tolerance * weights.sum(-1))[0]
    total, kept = sum(sizes), weights[0][counted]
    assert float(kept.sum()) >= (1 - tolerance) * total * (1 - 1e-12)
    assert bool((kept > 0).all())
    if len(kept):
        assert float(kept.sum() - kept.min()) <= (1 - tolerance) * total * (1 + 1e-12)
        assert float(kept.min()) >= float(weights[0][~counted].max() if bool((~counted).any()) else 0)


def test_a_direction_along_which_tokens_do_not_spread_does_not_count():
    values, nothing = torch.tensor([[5.0, 1.0]]).double(), torch.zeros(1, 2).double()
    spread = torch.diag(torch.tensor([1e-4, 1.0])).double()[None]
    found = read_shapes(values, nothing, torch.zeros(1).double(), 1.0, spread)
    assert found.counted.tolist() == [[False, True]]
    assert SHAPES[int(found.columns.shape[0])] == "slab"


def test_the_vocabulary_is_that_of_the_viewer():
    assert schema.SHAPES == SHAPES


def test_level_sets_without_radii_are_refused():
    pairs = spectrum(planted_shapes(), 0)
    with pytest.raises(ValueError, match="threshold=0 is a cone"):
        level_set(pairs, 0.0)
    assert not level_set(pairs, -1.0).meets.any()
    assert not level_set(spectrum(planted_shapes(), 4), 1.0).meets.any()
