"""The picture of a comparison: real pixels, one panel a measure."""

import io
from importlib import import_module

from quadric.studies.reports.heat_map import comparison_as_png
from quadric.studies.reports.run_comparison import compare_runs
from tests.geometry.examples import trained


def test_the_picture_shows_the_values():
    comparison = compare_runs(["$a_b$", "b"], [trained(), trained(seed=1)])
    image = import_module("matplotlib.image").imread(io.BytesIO(comparison_as_png(comparison)))
    assert image.shape[0] > 200
    assert image.shape[1] > 2 * image.shape[0]
    viridis = import_module("matplotlib").colormaps["viridis"]
    for value in (1.0, comparison.matrix("frobenius")[0][1], comparison.matrix("alignment_sign_free")[0][1]):
        distance = abs(image[..., :3] - viridis(value)[:3]).max(axis=-1)
        assert (distance < 0.02).sum() > 1000
