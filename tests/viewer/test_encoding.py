"""Byte planes come back as the numbers they were made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadric.viewer.encoding import pack, planes, quantized, unpack


@given(st.lists(st.integers(-(2**15), 2**16 - 1), min_size=1))
def test_two_planes_hold_two_bytes(numbers):
    low, high = planes(np.array(numbers), 2).astype(np.int64)
    assert list((low + (high << 8)) % 2**16) == [number % 2**16 for number in numbers]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="do not fit into 1 bytes"):
        planes(np.array([0, 256]), 1)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1), st.sampled_from([1, 2]))
def test_quantized_rows_are_within_half_a_step(values, width):
    row = np.array([values], dtype=np.float32)
    stored, scales = quantized(row, width)
    half = 1 << (8 * width - 1)
    whole = sum(plane.astype(np.int64) << (8 * index) for index, plane in enumerate(stored))
    signed = np.where(whole >= half, whole - 2 * half, whole)
    step = scales[0].item() / (half - 1)
    assert np.abs(signed[0] * step - row[0]).max() <= step * 0.5001 + 1e-30


def test_a_row_of_zeros_has_scale_zero():
    stored, scales = quantized(np.zeros((1, 3), dtype=np.float32), 2)
    assert scales.tolist() == [0.0]
    assert not stored.any()


def test_packing_is_undone_and_repeatable():
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1], "b": np.array([1, 2], dtype=np.int32)}
    assert pack(tensors) == pack(tensors)
    for name, tensor in unpack(pack(tensors)).items():
        np.testing.assert_array_equal(tensor, tensors[name])
