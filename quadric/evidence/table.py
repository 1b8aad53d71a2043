"""One row per latent: what the weights say about it and, with evidence, what data says.

The table is small and plain. `to_pandas` and `to_csv` hand it to other tools; pandas is optional.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadric._io.files import write_atomically
from quadric._io.results import csv_text, rows_table
from quadric._io.terminal import printable
from quadric.geometry import Decomposition, statistics
from quadric.model import Dictionary

if TYPE_CHECKING:  # evidence imports the language-model packages, which a table of weights does not need
    from quadric.evidence import Evidence

Array = np.ndarray

GEOMETRY_COLUMNS = (
    "shape",
    "curvature",
    "effective_rank",
    "captured",
    "importance",
    "support",
    "positive",
    "negative",
    "copy_of",
    "linear",
)
EVIDENCE_COLUMNS = ("label", "measured_curvature", "density", "firing_share", "positive_share", "mean_square")
SHOWN_ROWS = 5
LONGEST_CELL = 32


@dataclass(frozen=True, eq=False, repr=False)
class LatentTable:
    """One row per latent. `table["shape"]` is a column, iteration gives the names, `len` is the number of latents.

    | column | meaning |
    |---|---|
    | `index` | index of the latent |
    | `shape` | half-space, slab, ellipsoid, hyperboloid, elliptic or hyperbolic paraboloid, constant or empty |
    | `curvature` | share of the variance of z that no linear function of the token explains, were tokens Gaussian |
    | `effective_rank` | (Σ\\|λ\\|)² / Σλ² of the quadratic part |
    | `captured` | share of Σ\\|λ\\| in the first three eigenvalues |
    | `importance` | ‖W‖², divided by its average over latents; ‖d‖² for a direction d |
    | `support` | number of atoms that feed into the latent |
    | `positive`, `negative` | number of eigenvalues of each sign that count for the shape |
    | `copy_of` | the earlier latent with nearly the same form, or −1 |
    | `linear` | whether the latent is a direction of a linear dictionary: a half-space with curvature 0 |
    | `label` | short name, with evidence only, as are all below |
    | `measured_curvature` | variance of z that its best linear predictor leaves; of a direction, its gate's |
    | `density` | Hoyer density of z − b |
    | `firing_share` | share of tokens on which the latent fires |
    | `positive_share` | share of Σ(z − rest)² from z > rest |
    | `mean_square` | mean of (z − rest)² |

    With evidence, a raw dictionary is read about the centre of its tokens, and the side of every latent that carries
    more energy is positive.
    """

    columns: dict[str, Array]
    """The columns by name, in order."""

    def __getitem__(self, column: str) -> Array:
        if column in self.columns:
            return self.columns[column]
        remedy = "give evidence= to latents()" if column in EVIDENCE_COLUMNS else f"there are {', '.join(self.columns)}"
        raise KeyError(f"no column {column!r}; {remedy}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns["index"])

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __repr__(self) -> str:
        """The first rows as a small table."""
        lines = [[_cell(value) for value in row] for row in zip(*self._head(), strict=True)]
        table = [list(self.columns), *lines]
        widths = [max(len(row[column]) for row in table) for column in range(len(self.columns))]
        shown = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        hidden = len(self) - len(lines)
        return "\n".join([f"LatentTable of {len(self):,} latents", *shown, *([f"… {hidden:,} more"] if hidden else [])])

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        rows = ([_cell(value) for value in row] for row in zip(*self._head(), strict=True))
        return rows_table(f"{len(self):,} latents, the first {SHOWN_ROWS}", list(self.columns), rows)

    def _head(self) -> list[list[Any]]:
        return [values[:SHOWN_ROWS].tolist() for values in self.columns.values()]

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`.

        Returns:
            A data frame with the same columns.

        Raises:
            ValueError: If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ValueError("this needs pandas; install it with: pip install 'quadric[tables]'") from None
        return pandas.DataFrame(dict(self.columns))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as a CSV file in UTF-8 with a header line; text is quoted, numbers are not.

        A label that a spreadsheet would run as a formula gets an apostrophe in front.

        Args:
            path: The file to write.
        """
        rows = zip(*(values.tolist() for values in self.columns.values()), strict=True)
        write_atomically(Path(path), csv_text(list(self.columns), rows, quote_text=True).encode())


def latents(
    autoencoder: Dictionary, evidence: "Evidence | None" = None, *, geometry: Decomposition | None = None
) -> LatentTable:
    """The table of all latents: their geometry from weights alone and, with evidence, their labels and firing.

    Args:
        autoencoder: Any dictionary.
        evidence: What `quadric.collect_evidence` returned for it.
        geometry: Its geometry, if it was computed before; then no latent is decomposed again.

    Returns:
        One row per latent; see `LatentTable` for the columns.

    Example:
        >>> table = quadric.latents(ae)
        >>> table["shape"][0] in quadric.geometry.SHAPES
        True
        >>> table.to_csv("latents.csv")
    """
    if evidence is not None:
        evidence.check_weights(autoencoder)
    centre = None if evidence is None else evidence.calibration.tokens_centre()
    found = statistics(autoencoder, geometry=geometry, centre=centre)
    columns = {"index": np.arange(len(found)), "shape": np.array(found.shape, dtype=object)}
    columns |= {name: found[name].numpy() for name in GEOMETRY_COLUMNS[1:]}
    if evidence is not None:
        turned = evidence.calibration.signs < 0
        positive, negative = columns["positive"], columns["negative"]
        columns["positive"] = np.where(turned, negative, positive)
        columns["negative"] = np.where(turned, positive, negative)
        columns |= _evidence_columns(evidence)
    return LatentTable(columns)


def _evidence_columns(evidence: "Evidence") -> dict[str, Array]:
    labels = [evidence.labels.of(latent) for latent in range(evidence.n_latents)]
    numbers = {name: np.array(getattr(evidence.statistics, name)) for name in EVIDENCE_COLUMNS[2:]}
    curvature = np.array(evidence.statistics.curvature)
    return {"label": np.array(labels, dtype=object), "measured_curvature": curvature, **numbers}


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else printable(" ".join(str(value).split()))
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
