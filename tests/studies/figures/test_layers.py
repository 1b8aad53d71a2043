"""Summaries of cells that differ in their seed."""

import pytest

from quadric.studies.figures.layers import summary
from quadric.studies.figures.series import Series
from quadric.studies.figures.style import LOOKS


def test_the_interval_of_an_error_has_no_negative_end() -> None:
    cells = [
        {"n_latents": 8, "error": error, "error_low": error - 0.01, "error_high": error + 0.01}
        for error in (0.035, 0.042, 0.08)
    ]
    series = Series("composite", "affine", LOOKS["composite"], cells)
    found = summary(series, cells)
    mean, half = 0.157 / 3, 0.0599  # Student's t with two degrees of freedom, 4.303, times the standard error
    assert found["error"] == pytest.approx(mean)
    assert found["low"] == 0
    assert found["high"] == pytest.approx(mean + half, abs=1e-3)
    narrow = summary(series, [each | {"error": 0.5 + each["error"]} for each in cells])
    assert narrow["low"] == pytest.approx(0.5 + mean - half, abs=1e-3)
