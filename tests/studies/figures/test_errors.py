"""Figures of the error: summaries over seeds, lines over the number of latents, ticks of bits."""

from itertools import pairwise
from typing import Any

import pytest

from quadric.studies.figures import FigureData, MissingDataError
from quadric.studies.figures.errors import COLUMNS, crossings, draw_error_bits, draw_widths, over_width, summary
from quadric.studies.figures.figure_data import Series, all_series
from quadric.studies.figures.style import LOOKS, styled
from quadric.studies.sweep.rows import Row


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


def cell(kind: str, n_latents: int, error: float, *, seed: int = 0, **more: Any) -> dict[str, Any]:
    bilinear = kind != "topk"
    return {
        "cell": f"{kind}-{n_latents}-{error}-{seed}", "hook_point": "resid_pre.2", "layer": 2, "kind": kind,
        "lens": "paper" if bilinear else None, "alpha": 0.3 if bilinear else None, "seed": seed, "d_model": 16,
        "n_latents": n_latents, "error": error, "error_low": error - 0.01, "error_high": error + 0.01,
        "error_quadratic": error / 2, "floor": 1 / n_latents, **more,
    }  # fmt: skip


FALLING = [cell("atomic", 8, 0.6), cell("atomic", 32, 0.2), cell("atomic", 128, 0.1)]
LEVEL = [cell("topk", 8, 0.4), cell("topk", 32, 0.4), cell("topk", 128, 0.4)]


def test_lines_cross_where_they_are_equal() -> None:
    (k,) = crossings(FALLING, LEVEL)
    assert k == pytest.approx(16)  # half way between 8 and 32 in log k
    assert crossings(FALLING, LEVEL, "error_quadratic") == [k]
    assert crossings(FALLING[1:], LEVEL) == []
    assert crossings(FALLING, LEVEL[:1]) == []


def test_the_csv_has_every_size_and_the_mean_over_seeds() -> None:
    rows = [*FALLING, *LEVEL, cell("atomic", 8, 0.5, seed=1)]
    drawn = draw_widths(FigureData(rows=tuple(rows)))
    found = {(row["kind"], row["n_latents"]): row for row in drawn.rows}
    assert len(found) == 6
    assert found["atomic", 8]["error"] == pytest.approx(0.55)
    assert (found["atomic", 8]["smallest"], found["atomic", 8]["largest"]) == (0.5, 0.6)
    assert found["topk", 32]["floor"] == pytest.approx(1 / 32)
    labels = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert labels == ["atomic", "TopK", "floor: PCA of xxᵀ"]
    assert [tick.get_text() for tick in drawn.figure.axes[0].get_xticklabels()] == ["8\nd/2", "32\n2 d", "128\n8 d"]


def test_only_the_layer_with_most_sizes_is_drawn() -> None:
    elsewhere = cell("atomic", 64, 0.9, hook_point="resid_pre.1")
    assert {row["n_latents"] for row in draw_widths(FigureData(rows=(*FALLING, elsewhere))).rows} == {8, 32, 128}


def test_unmeasured_blocks_and_floors_are_left_out() -> None:
    rows = [row | {"error_quadratic": None, "floor": None} for row in FALLING]
    figure = draw_widths(FigureData(rows=tuple(rows))).figure
    assert [len(axes.lines) for axes in figure.axes] == [1, 0]


def test_one_size_is_not_enough() -> None:
    with pytest.raises(MissingDataError, match="two sizes"):
        draw_widths(FigureData(rows=tuple(FALLING[:1])))


def test_both_lenses_are_lines_of_their_own_at_their_own_alpha() -> None:
    affine = [cell("atomic", k, 0.3, lens="affine", alpha=0.05) for k in (8, 32)]
    other_alpha = cell("atomic", 8, 0.9, alpha=1.0)
    lines = {
        each.look.label: over_width(each) for each in all_series(FigureData(rows=(*FALLING, other_alpha, *affine)))
    }
    assert {label: [row["error"] for row in line] for label, line in lines.items()} == {
        "atomic": [0.6, 0.2, 0.1],
        "atomic, affine lens": [0.3, 0.3],
    }
    (alone,) = all_series(FigureData(rows=tuple(affine)))
    assert alone.look.label == "atomic"


def test_rows_of_earlier_versions_have_the_papers_lens() -> None:
    rows = [{name: value for name, value in row.items() if name != "lens"} for row in (*FALLING, *LEVEL)]
    assert [(each.kind, each.lens) for each in all_series(FigureData(rows=tuple(rows)))] == [
        ("atomic", "paper"),
        ("topk", None),
    ]


def measured_cell(kind: str, bits: float) -> Row:
    empty: Row = dict.fromkeys(COLUMNS, 0)
    return empty | {
        "kind": kind, "bits": bits, "bits_a_latent": bits, "error": 0.3, "alpha": 0.3, "hook_point": "resid_pre.2",
        "lens": "paper",
    }  # fmt: skip


@pytest.mark.parametrize("most", [1.1e6, 2.5e6, 9e6, 5e8])
def test_labels_of_bits_do_not_overlap(most: float) -> None:
    with styled():
        rows = (measured_cell("atomic", 1e6), measured_cell("quadratic", most))
        figure = draw_error_bits(FigureData(rows=rows)).figure
        figure.draw_without_rendering()
        left, right = figure.axes[0].get_xlim()
        labels = [
            each.label1.get_window_extent()
            for each in figure.axes[0].xaxis.get_major_ticks()
            if left <= each.get_loc() <= right
        ]
    assert len(labels) > 1
    assert all(first.x1 < second.x0 for first, second in pairwise(labels))
