"""One finished cell as one flat row, in a small file of its own; and all rows as one table."""

import io
import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from quadric._io.files import read_json, write_atomically
from quadric._io.results import csv_of_rows
from quadric.evaluation import Evaluation
from quadric.evaluation.measures import ActiveError
from quadric.evaluation.record import MEASURED_ON, SETTINGS
from quadric.geometry import description_length, statistics
from quadric.model import Dictionary, Term
from quadric.model.forms import Forms
from quadric.run.config import RunConfig
from quadric.train.settings import Cell

Row = dict[str, Any]
"""Value by column name; None where a column does not apply to the cell."""

COMPARED_ACTIVE = 32
"""Latents per token in the paper's TopK baseline."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def cell_row(cell: Cell, config: RunConfig, dictionary: Dictionary, evaluation: Evaluation, group: str) -> Row:
    """All columns of one cell, in the order of the table."""
    measured = evaluation.to_dict()
    for name in (*SETTINGS, *MEASURED_ON):
        measured.pop(name)
    return {
        "cell": cell.name,
        "group": group,
        "model": dictionary.provenance.model,
        "hook_point": cell.hook_point,
        "layer": int(cell.hook_point.rpartition(".")[2]),
        "kind": evaluation.kind,
        "lens": evaluation.lens,
        "alpha": alpha_of(cell),
        "seed": cell.seed,
        "d_model": dictionary.d_model,
        "n_latents": dictionary.n_latents,
        "n_hidden": evaluation.n_hidden,
        "mixing_density": getattr(dictionary, "mixing_density", None),
        "n_active": getattr(cell.settings, "n_active", None),
        **loss_columns(cell),
        "steps": config.training.steps,
        "sequences_per_step": config.sequences_per_step,
        "block_length": config.reading.corpus.block_length,
        **measured,
        **_active(evaluation),
        **_geometry(dictionary),
    }


def alpha_of(cell: Cell) -> float | None:
    """Weight of the density in the loss of a cell; None for a kind that does not train it."""
    weights = [_loss_values(loss).get("density", 0.0) for loss in (cell.loss, cell.settings.default_loss())]
    return weights[0] if any(weights) else None


def loss_columns(cell: Cell) -> Row:
    """The terms whose weights are studied, and what else differs from the loss of the kind."""
    values, usual = _loss_values(cell.loss), _loss_values(cell.settings.default_loss())
    absent = None if cell.settings.lens_name is None else 0.0
    columns = {
        "top_latents": values.pop("error.top", None),
        "mean_penalty": values.pop("mean", absent),
        "overlap_penalty": values.pop("overlap", absent),
    }
    values.pop("density", None)
    others = {name: value for name, value in values.items() if value != usual.get(name)}
    return columns | {f"loss_{name.replace('.', '_')}": value for name, value in others.items()}


def _loss_values(loss: Iterable[Term]) -> dict[str, Any]:
    """Weights by the names of terms, and their other settings as TERM.SETTING, as --loss takes them."""
    return {
        term.name if each.name == "weight" else f"{term.name}.{each.name}": getattr(term, each.name)
        for term in loss
        for each in fields(term)
    }


def _active(evaluation: Evaluation) -> Row:
    """Latents per token that come close to the error of all, and the error of the 32 strongest."""
    curve = evaluation.measures.by_active
    return {"active_per_token": fewest_active(curve), "error_of_32_active": error_at(curve, COMPARED_ACTIVE)}


def _geometry(dictionary: Dictionary) -> Row:
    """Bits and effective ranks; None for a dictionary without forms."""
    ranks = [f"effective_rank_{round(100 * q):02d}" for q in QUANTILES]
    names = ["bits", "bits_a_latent", "effective_rank_mean", *ranks, "captured_1", "captured_3", "captured_5"]
    if not isinstance(dictionary.forms(), Forms):
        return dict.fromkeys(names)
    table, bits = statistics(dictionary), description_length(dictionary)
    rank = table.effective_rank.double()
    quantiles = rank.quantile(rank.new_tensor(QUANTILES)).tolist()
    captured = [table[name].median().item() for name in ("captured_1", "captured", "captured_5")]
    values = [bits.total, bits.alone.mean().item(), rank.mean().item(), *quantiles, *captured]
    return dict(zip(names, values, strict=True))


ROWS = "rows"
TABLE = "results"


def row_path(folder: Path, cell: str) -> Path:
    """Path of a cell's row."""
    return folder / ROWS / f"{cell}.json"


def write_row(folder: Path, row: Row) -> None:
    """Store the row of a finished cell."""
    path = row_path(folder, row["cell"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(row, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode())


def read_rows(folder: Path) -> list[Row]:
    """Rows of all finished cells, sorted by layer, kind, alpha and seed.

    Args:
        folder: Of the sweep.

    Returns:
        One dictionary of column names and values per cell.

    Example:
        >>> from quadric.studies.sweep import read_rows
        >>> [(row["layer"], row["kind"], row["n_latents"]) for row in read_rows(Path("runs/sweep"))]
        [(2, 'composite', 24), (2, 'topk', 24)]
    """
    rows = [_read(path) for path in sorted((folder / ROWS).glob("*.json"))]
    return sorted(rows, key=lambda row: (row["layer"], row["kind"], row["alpha"] or 0.0, row["seed"], row["cell"]))


def _read(path: Path) -> Row:
    remedy = "delete it and run quadric sweep to measure the cell again"
    row = read_json(path, remedy)
    if not isinstance(row, dict) or not row.keys() >= {"layer", "kind", "alpha", "seed", "cell"}:
        raise ValueError(f"{path} is not a row of a sweep; {remedy}")
    return row


def write_table(folder: Path, rows: list[Row]) -> list[Path]:
    """Write all rows to results.parquet and results.csv; returns both paths."""
    paths = [folder / f"{TABLE}.parquet", folder / f"{TABLE}.csv"]
    write_atomically(paths[0], _parquet(rows))
    write_atomically(paths[1], csv_of_rows(rows).encode())
    return paths


def _parquet(rows: list[Row]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in columns(rows)}), buffer)
    return buffer.getvalue()


def columns(rows: list[Row]) -> list[str]:
    """Union of the rows' columns, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def fewest_active(curve: list[ActiveError], tolerance: float = 0.1) -> int:
    """The smallest number of latents per token on the curve whose error is within 10 % of that with all latents."""
    most = (1 + tolerance) * curve[-1].error
    return next(point.n_active for point in curve if point.error <= most or point is curve[-1])


def error_at(curve: list[ActiveError], n_active: int) -> float:
    """The error with `n_active` latents per token; with all of them where the dictionary has fewer."""
    return next((point.error for point in curve if point.n_active >= n_active), curve[-1].error)
