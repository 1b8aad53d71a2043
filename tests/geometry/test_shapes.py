"""Shapes from signatures."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadric.geometry import SHAPES, shape_of
from quadric.geometry.shapes import largest_shares, read_shapes
from quadric.viewer import schema


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
