"""Input data of the figures: measured cells of sweeps, the lines they make, and trained autoencoders of runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quadric._io.files import read_json
from quadric.geometry.dictionary import check_forms
from quadric.model import Dictionary, load_pretrained
from quadric.run.config import FILE_NAME as RUN_FILE
from quadric.run.config import read_run_config
from quadric.run.folder import ablation_file, autoencoder_folders, evidence_folder
from quadric.studies.figures.style import AFFINE_LOOKS, LOOKS, Look
from quadric.studies.sweep.config import FILE_NAME as SWEEP_FILE
from quadric.studies.sweep.config import RUNS
from quadric.studies.sweep.rows import Row, alpha_of, read_rows
from quadric.train.settings import Cell

ABLATED = {
    "latent", "mode", "own_fires", "own_elsewhere", "other_fires", "other_elsewhere", "turned_fires",
    "turned_elsewhere",
}  # fmt: skip
"""Columns of an ablation study that its figure needs."""
PAPER_ALPHA = 0.3


class MissingDataError(ValueError):
    """A figure has no data; the message names the command that produces it."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One trained bilinear autoencoder of a run."""

    cell: Cell
    run: Path
    folder: Path

    @property
    def kind(self) -> str:
        """Its prior."""
        return self.cell.settings.kind

    @property
    def alpha(self) -> float | None:
        """Weight of the density that it was trained with."""
        return alpha_of(self.cell)

    @property
    def evidence(self) -> Path:
        """Folder of its evidence, which exists only if evidence was collected."""
        return evidence_folder(self.run, self.cell.name)

    def load(self) -> Dictionary:
        """Load its weights."""
        return check_forms(load_pretrained(self.folder))


@dataclass(frozen=True, kw_only=True)
class FigureData:
    """All data found in the given folders."""

    rows: tuple[Row, ...] = ()
    """Measured cells."""
    trained: tuple[Trained, ...] = ()
    """Trained bilinear autoencoders; linear baselines are excluded because they have no geometry."""
    ablations: tuple[Row, ...] = ()
    """Ablated latents, with the name of their autoencoder."""

    @property
    def main_alpha(self) -> float:
        """The alpha at which priors are compared: that of most autoencoders, the paper's among equals."""
        counts = Counter(each.alpha for each in self.trained if each.alpha is not None)
        counts = counts or Counter(row["alpha"] for row in self.rows if row["alpha"] is not None)
        return max(counts, key=lambda alpha: (counts[alpha], alpha == PAPER_ALPHA), default=PAPER_ALPHA)

    def at_commonest_size(self, *kinds: str) -> list[Trained]:
        """The autoencoders of these kinds at their most common hook point, number of latents and lens."""
        candidates = [each for each in self.trained if each.kind in kinds]
        sizes = Counter(map(_place_and_size, candidates))
        if not sizes:
            return []
        (commonest, _), *_ = sizes.most_common(1)
        found = [each for each in candidates if _place_and_size(each) == commonest]
        return sorted(found, key=lambda each: (each.kind, each.alpha or 0.0, each.cell.seed))


def _place_and_size(trained: Trained) -> tuple[str, int, str | None]:
    settings = trained.cell.settings
    return trained.cell.hook_point, settings.n_latents, settings.lens_name


def read_figure_data(folders: Sequence[Path]) -> FigureData:
    """Read sweeps and run folders.

    Args:
        folders: Folders written by `quadric sweep` and `quadric train`.

    Returns:
        What the figures are drawn from.

    Example:
        >>> from quadric.studies.figures import read_figure_data
        >>> data = read_figure_data([Path("runs/sweep"), Path("runs/demo")])
        >>> len(data.rows), len(data.trained)
        (2, 1)
    """
    rows: dict[str, Row] = {}
    trained: dict[str, Trained] = {}
    ablations: list[Row] = []
    for folder in folders:
        runs = [folder]
        if (folder / SWEEP_FILE).is_file():
            rows |= {row["cell"]: row for row in read_rows(folder)}
            runs = sorted((folder / RUNS).iterdir()) if (folder / RUNS).is_dir() else []
        elif not (folder / RUN_FILE).is_file():
            raise FileNotFoundError(
                f"'{folder}' is neither a run nor a sweep; give folders written by quadric train or quadric sweep"
            )
        for run in runs:
            trained |= _trained(run)
            ablations += _ablations(run)
    return FigureData(rows=tuple(rows.values()), trained=tuple(trained.values()), ablations=tuple(ablations))


def _trained(run: Path) -> dict[str, Trained]:
    if not (run / RUN_FILE).is_file():
        return {}
    folders = autoencoder_folders(run)
    return {
        cell.name: Trained(cell=cell, run=run, folder=folders[cell.name])
        for cell in read_run_config(run).cells
        if cell.settings.lens_name is not None and cell.name in folders
    }


def _ablations(run: Path) -> list[Row]:
    found: list[Row] = []
    for name in autoencoder_folders(run):
        path = ablation_file(run, name)
        rows = read_json(path, "run quadric ablate again") if path.is_file() else []
        if not isinstance(rows, list) or not all(isinstance(row, dict) and row.keys() >= ABLATED for row in rows):
            raise ValueError(f"{path} is not a table of ablated latents; run quadric ablate again")
        found += [{"autoencoder": name, **row} for row in rows]
    return found


class Series(NamedTuple):
    """Cells of one kind and lens, at the alpha that most cells with this lens have."""

    kind: str
    lens: str | None
    """None for linear dictionaries."""
    look: Look
    rows: list[Row]


def all_series(data: FigureData) -> Iterator[Series]:
    """One series per kind and lens; the lens is named only if the cells have more than one."""
    by_lens = {lens: _at_main_alpha(data, lens) for lens in ("paper", "affine")}
    linear = [row for row in data.rows if lens_of(row) is None]
    both = all(by_lens.values())
    for kind, look in LOOKS.items():
        for lens, rows in (*by_lens.items(), (None, linear)):
            mine = [row for row in rows if row["kind"] == kind]
            if mine:
                yield Series(kind, lens, AFFINE_LOOKS[kind] if both and lens == "affine" else look, mine)


def _at_main_alpha(data: FigureData, lens: str) -> list[Row]:
    rows = [row for row in data.rows if lens_of(row) == lens]
    counts = Counter(row["alpha"] for row in rows)
    if not counts:
        return []
    main = max(counts, key=lambda alpha: (counts[alpha], alpha == data.main_alpha))
    return [row for row in rows if row["alpha"] == main]


def lens_of(row: Row) -> str | None:
    """The lens of a cell; rows of earlier versions do not name it, and all had the paper's."""
    lens: str | None = row.get("lens", None if row["alpha"] is None else "paper")
    return lens
