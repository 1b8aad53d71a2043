"""Rows on disk, and the table built from them."""

from pathlib import Path

import pytest
from pyarrow import parquet

from quadric import Atomic, Composite, Settings, TopK, paper_loss
from quadric.evaluation.measures import ActiveError
from quadric.model.terms import Density, Error, SquaredError, Term
from quadric.studies.sweep.rows import (
    alpha_of,
    error_at,
    fewest_active,
    loss_columns,
    read_rows,
    row_path,
    write_row,
    write_table,
)
from quadric.train import Cell

ROW = {"cell": "a", "layer": 3, "kind": "composite", "alpha": 0.3, "seed": 0, "error": 0.25}
BASELINE = {"cell": "b", "layer": 3, "kind": "topk", "alpha": None, "seed": 0, "error": 0.5, "spliced": 7}


def test_rows_are_read_in_the_order_of_the_table(tmp_path: Path) -> None:
    shallow = ROW | {"cell": "z", "layer": 1}
    for row in (BASELINE, ROW, shallow):
        write_row(tmp_path, row)
    assert read_rows(tmp_path) == [shallow, ROW, BASELINE]


def test_missing_values_are_empty_cells(tmp_path: Path) -> None:
    paths = write_table(tmp_path, [ROW, BASELINE])
    assert parquet.read_table(paths[0]).to_pylist() == [ROW | {"spliced": None}, BASELINE]
    assert paths[1].read_text().splitlines() == [
        "cell,layer,kind,alpha,seed,error,spliced",
        "a,3,composite,0.3,0,0.25,",
        "b,3,topk,,0,0.5,7",
    ]


def test_nan_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_row(tmp_path, ROW | {"error": float("nan")})


def test_error_for_a_damaged_row_names_file_and_remedy(tmp_path: Path) -> None:
    write_row(tmp_path, ROW)
    row_path(tmp_path, "a").write_text("{")
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON .*; delete it"):
        read_rows(tmp_path)


NONE = {"top_latents": None, "mean_penalty": 0.0, "overlap_penalty": 0.0}
LINEAR = dict.fromkeys(NONE)


@pytest.mark.parametrize(
    ("settings", "loss", "alpha", "columns"),
    [
        (Composite(n_latents=1024), (), 0.05, {"top_latents": 32, "mean_penalty": 1.0, "overlap_penalty": 0.01}),
        (Atomic(lens="paper"), paper_loss(0.0), 0.0, NONE),
        (Atomic(lens="paper"), (Error(),), 0.0, NONE),
        (TopK(), (), None, LINEAR),
        (
            TopK(),
            (SquaredError(2.0), Density(0.1, warmup=3)),
            0.1,
            LINEAR | {"loss_squared_error": 2.0, "loss_density_warmup": 3},
        ),
    ],
)
def test_the_loss_of_a_cell_has_the_columns_that_studies_compare_and_what_else_differs(
    settings: Settings, loss: tuple[Term, ...], alpha: float | None, columns: dict[str, object]
) -> None:
    cell = Cell(settings=settings, loss=loss)
    assert alpha_of(cell) == alpha
    assert loss_columns(cell) == columns


def test_fewest_active_latents_reach_nearly_the_error_of_all() -> None:
    curve = [ActiveError(1, 0.9), ActiveError(2, 0.34), ActiveError(4, 0.32), ActiveError(5, 0.3)]
    assert fewest_active(curve) == 4
    assert fewest_active(curve, tolerance=0.2) == 2
    assert fewest_active(curve[:1]) == 1
    assert [error_at(curve, count) for count in (1, 2, 3, 5, 32)] == [0.9, 0.34, 0.32, 0.3, 0.3]
