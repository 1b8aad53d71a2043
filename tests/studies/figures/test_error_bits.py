"""Ticks of the figure of error against description length."""

from itertools import pairwise

import pytest

from quadric.studies.figures import FigureData
from quadric.studies.figures.error_bits import COLUMNS, draw
from quadric.studies.figures.style import styled
from quadric.studies.sweep.rows import Row


def cell(kind: str, bits: float) -> Row:
    empty: Row = dict.fromkeys(COLUMNS, 0)
    return empty | {
        "kind": kind, "bits": bits, "bits_a_latent": bits, "error": 0.3, "alpha": 0.3, "hook_point": "resid_pre.2",
        "lens": "paper",
    }  # fmt: skip


@pytest.mark.parametrize("most", [1.1e6, 2.5e6, 9e6, 5e8])
def test_labels_of_bits_do_not_overlap(most: float) -> None:
    with styled():
        figure = draw(FigureData(rows=(cell("atomic", 1e6), cell("quadratic", most)))).figure
        figure.draw_without_rendering()
        left, right = figure.axes[0].get_xlim()
        labels = [
            each.label1.get_window_extent()
            for each in figure.axes[0].xaxis.get_major_ticks()
            if left <= each.get_loc() <= right
        ]
    assert len(labels) > 1
    assert all(first.x1 < second.x0 for first, second in pairwise(labels))
