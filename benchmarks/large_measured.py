"""What `make reproduce-large` has measured so far: rows of finished cells, comparisons, and bounds of the floor."""

from pathlib import Path
from typing import Any, NamedTuple

from large_cells import PAPER_ALPHA, Settings, name_of, read_linearity
from large_comparisons import RANDOM, read_comparisons, read_floor, read_over_training

from quadric.run.config import RunConfig
from quadric.run.scales import LARGE
from quadric.studies.sweep.rows import Row, read_rows
from quadric.train import AutoencoderConfig

AGREEMENTS = {
    "frobenius": "Sim_F", "frobenius_without_mean": "Sim_F without the mean", "hungarian_symmetric": "Sim_H",
    "alignment": "alignment", "alignment_without_mean": "alignment without the mean",
}  # fmt: skip
"""Measures of agreement; those without the mean are of the forms' quadratic blocks alone."""
PRIORS = ("atomic", "composite", "quadratic")


class Finished(NamedTuple):
    """What is known so far."""

    rows: list[Row]
    comparisons: list[dict[str, Any]]
    over_training: list[dict[str, Any]]
    floor: dict[str, Any]
    settings: Settings

    def main(self, kind: str, *, lens: str | None = "paper") -> Row | None:
        """The row of one main cell."""
        return self.cell(kind, self.settings.n_latents, lens=lens)

    def cell(self, kind: str, n_latents: int, *, lens: str | None = "paper") -> Row | None:
        """The row of the first seed at the paper's alpha; for linear and affine cells, alpha does not select."""
        for row in self.recipes:
            same = (row["kind"], row["lens"], row["seed"], row["n_latents"]) == (kind, lens, 0, n_latents)
            if same and (lens != "paper" or row["alpha"] == PAPER_ALPHA):
                return row
        return None

    @property
    def recipes(self) -> list[Row]:
        """All rows but the default's without its penalty on the mean, which answers only what the penalty does."""
        return [row for row in self.rows if not lacks_penalty(row)]

    @property
    def unpenalized(self) -> Row | None:
        """The default without its penalty on the mean."""
        return next(filter(lacks_penalty, self.rows), None)

    @property
    def topk(self) -> Row | None:
        return self.main("topk", lens=None)

    @property
    def default(self) -> Row | None:
        return self.main("composite", lens="affine")

    @property
    def bilinear(self) -> dict[str, Row]:
        """The main cells of the priors and of the default, as far as they are finished."""
        rows = {prior: self.main(prior) for prior in PRIORS} | {"default": self.default}
        return {name: row for name, row in rows.items() if row is not None}


def is_unpenalized(cell: AutoencoderConfig) -> bool:
    return cell.lens == "affine" and LARGE.mean_penalty_of(cell.n_latents) > cell.mean_penalty


def lacks_penalty(row: Row) -> bool:
    """The same of a row; rows of earlier versions do not name the penalty, and had none."""
    return row["lens"] == "affine" and LARGE.mean_penalty_of(row["n_latents"]) > (row.get("mean_penalty") or 0)


def read_finished(configs: list[RunConfig], work: Path, settings: Settings) -> Finished:
    """Rows of the finished cells with the bounds of the floor for their size, and comparisons between them.

    Cells of other settings may lie in the same folder; they are left out.
    """
    floor, names = read_floor(work), set(map(name_of, configs))
    bounds = {each["n_latents"]: each for each in floor["bounds"]}
    linear = read_linearity(work)
    rows = [
        _with_floor(row, bounds.get(row["n_latents"])) | _with_linearity(linear.get(row["cell"]))
        for row in read_rows(work)
        if row["cell"] in names
    ]
    comparisons = [each for each in read_comparisons(work) if {each["first"], each["second"]} <= names | {RANDOM}]
    over_training = [each for each in read_over_training(work) if {each["first"], each["second"]} <= names]
    return Finished(rows, comparisons, over_training, floor, settings)


def _with_floor(row: Row, bounds: dict[str, float] | None) -> Row:
    found = {"floor": None, "floor_fitted": None}
    return row | (found if bounds is None else {"floor": bounds["held_out"], "floor_fitted": bounds["fitted"]})


def _with_linearity(found: dict[str, float] | None) -> Row:
    shares = {"median": None, "linear": None} if found is None else found
    return {"linear_r2": shares["median"], "linear_share": shares["linear"]}


def error_with_interval(row: Row) -> str:
    """The error of a cell, with its interval over sequences."""
    return f"{row['error']:.4f} ({row['error_low']:.4f}–{row['error_high']:.4f})"
