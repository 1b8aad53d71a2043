"""What the weights of one autoencoder say: numbers for every latent, and a summary of them.

Labels of latents come from the JSON of a run's evidence: the room `quadric.evidence` imports language-model code, which
a report on weights must not need.
"""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quadric._io.files import read_versioned_json
from quadric._io.progress import Progress, no_progress
from quadric._io.results import csv_text, json_text, write_result
from quadric.geometry import SHAPES, Decomposition, DescriptionLength, LatentStatistics, description_length, statistics
from quadric.geometry.centring import has_own_centre
from quadric.geometry.shapes import DEFAULT_TOLERANCE
from quadric.interop.reading import read_dictionary
from quadric.model import Dictionary
from quadric.model.forms import Forms
from quadric.model.storage import weights_sha256
from quadric.run.folder import autoencoder_folder, evidence_folder, known_geometry, local_folder

QUANTILES = {"min": 0.0, "p05": 0.05, "median": 0.5, "p95": 0.95, "max": 1.0}
SUMMARISED = (
    "curvature",
    "effective_rank",
    "captured_1",
    "captured",
    "captured_5",
    "importance",
    "support",
    "dimension",
)
LABELS = {
    "curvature": "curvature",
    "effective_rank": "effective rank",
    "captured_1": "captured, top 1",
    "captured": "captured, top 3",
    "captured_5": "captured, top 5",
    "importance": "importance (average 1×)",
    "support": "support (atoms)",
    "dimension": "dimension",
}
ABOUT_LENS, ABOUT_TOKENS, ABOUT_ORIGIN = "the lens's centre", "the mean token of the run's evidence", "the origin"
ABOUT_BIAS = "the decoder's bias"
"""About what shapes are reported."""
EVIDENCE, EVIDENCE_FORMAT, EVIDENCE_VERSION = "evidence.json", "quadric-evidence", 2


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunReport:
    """Everything that the weights of one autoencoder say."""

    run: str
    """Folder or hub id that the autoencoder was loaded from."""
    kind: str
    """bilinear, or the name of a linear one, whose latents are directions."""
    architecture: dict[str, Any]
    provenance: dict[str, Any]
    latents: LatentStatistics
    bits: DescriptionLength
    about: str = ABOUT_ORIGIN
    """What shapes are about, in words."""
    labels: list[str] | None = None
    """A label for every latent, if the run has evidence."""

    def __repr__(self) -> str:
        labelled = "" if self.labels is None else ", with labels"
        return f"RunReport({self.run}: {self.latents}, {readable_bits(self.bits.total)}{labelled})"

    def columns(self) -> dict[str, list[Any]]:
        """The numbers of every latent, column by column, and its label if there is one."""
        labels = {} if self.labels is None else {"label": self.labels}
        return {**self.latents.columns(), "bits": self.bits.alone.tolist(), **labels}

    def dictionary(self) -> str:
        """What kind of dictionary it is, in a few words, e.g. "512 composite latents"."""
        shape = self.architecture
        kind = f"linear ({self.kind})" if shape["n_hidden"] is None else self.kind
        return f"{shape['n_latents']:,} {kind} latents"

    def most_important(self, count: int) -> list[int]:
        """The most important latents, most important first."""
        order = self.latents.importance.argsort(descending=True, stable=True)
        return [int(latent) for latent in order[:count]]

    def shape_counts(self) -> dict[str, int]:
        """Number of latents of each shape, of those that there are."""
        counts = Counter(self.latents.shape)
        return {shape: counts[shape] for shape in reversed(SHAPES) if counts[shape]}

    def n_copies(self) -> int:
        """Number of latents that are copies of others."""
        return int((self.latents.copy_of >= 0).sum())

    def living(self, column: str) -> Tensor:
        """A column without the empty latents, whose numbers have no meaning."""
        values: Tensor = self.latents[column]
        return values[self.latents.norm > 0].double()

    def summary(self) -> dict[str, Any]:
        """Shapes, quantiles over the latents that are not empty, and description length."""
        return {
            "shapes": self.shape_counts(),
            "copies": self.n_copies(),
            "quantiles": {column: quantiles(self.living(column)) for column in SUMMARISED},
            "captured_curve_median": self.captured_curve(),
            "description_length": {
                "precision": self.bits.precision,
                "atoms": self.bits.atoms,
                "supports": self.bits.supports,
                "weights": self.bits.weights,
                "total": self.bits.total,
            },
        }

    def captured_curve(self) -> list[float]:
        """The median over latents of the share of Σ|λ| in the first 1, 2, … eigenvalues."""
        curve = self.latents.captured_curve()[self.latents.norm > 0]
        medians: list[float] = curve.median(dim=0).values.tolist() if len(curve) else []
        return medians

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain values."""
        return {
            "run": self.run,
            "kind": self.kind,
            "architecture": self.architecture,
            "provenance": self.provenance,
            "tolerance": self.latents.tolerance,
            "about": self.about,
            "summary": self.summary(),
            "latents": self.columns(),
        }


def report_on(
    run: str,
    autoencoder: Dictionary,
    tolerance: float = DEFAULT_TOLERANCE,
    on_progress: Progress = no_progress,
    geometry: Decomposition | None = None,
) -> RunReport:
    """Report on an autoencoder from its weights alone.

    Args:
        run: What it was loaded from, a folder or a hub id.
        autoencoder: Any dictionary.
        tolerance: Share of a latent's variance that each part left out of its shape may have.
        on_progress: Called as latents are decomposed.
        geometry: Its geometry, if it was computed before; then no latent is decomposed again.

    Returns:
        The report.
    """
    return RunReport(
        run=run,
        kind=autoencoder.kind,
        architecture=_architecture(autoencoder),
        provenance=asdict(autoencoder.provenance),
        latents=statistics(autoencoder, tolerance, on_progress, geometry),
        bits=description_length(autoencoder),
        about=_about(autoencoder, geometry),
    )


def _architecture(dictionary: Dictionary) -> dict[str, Any]:
    """Settings and sizes; the number of atoms is None where latents are directions."""
    forms = dictionary.forms()
    atoms = forms.n_hidden if isinstance(forms, Forms) else None
    sizes = {"d_model": dictionary.d_model, "seed": dictionary.seed, "n_hidden": atoms}
    return {**asdict(dictionary.settings), **sizes, **dictionary.facts()}


def _about(autoencoder: Dictionary, geometry: Decomposition | None) -> str:
    if has_own_centre(autoencoder):
        return ABOUT_LENS
    if autoencoder.is_linear and (geometry is None or geometry.centre is None):
        return ABOUT_BIAS
    return ABOUT_ORIGIN if geometry is None or geometry.centre is None else ABOUT_TOKENS


def report_on_run(
    run: str,
    *,
    name: str | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    on_progress: Progress = no_progress,
) -> RunReport:
    """Report on an autoencoder of a run, with labels if the run has evidence about it.

    Args:
        run: Run folder, folder made by save_pretrained, or hub id.
        name: Which autoencoder, if the run has several.
        tolerance: Share of a latent's variance that each part left out of its shape may have.
        on_progress: Called as latents are decomposed.

    Returns:
        The report; `write_report` writes it as JSON or CSV.

    Example:
        write_report(report_on_run("runs/demo"), Path("report.json"))
    """
    folder = local_folder(run)
    own = autoencoder_folder(folder, name)
    autoencoder = read_dictionary(own)
    known = known_geometry(folder, autoencoder, name)
    report = report_on(run if name is None else f"{run}/{name}", autoencoder, tolerance, on_progress, known)
    return replace(report, labels=stored_labels(evidence_folder(folder, own.resolve().name), autoencoder))


def stored_labels(evidence: Path, autoencoder: Dictionary) -> list[str] | None:
    """The label of every latent; None if there is no evidence, or only evidence about other weights.

    Args:
        evidence: Folder of the evidence about the autoencoder.
        autoencoder: The autoencoder that the labels must belong to.
    """
    path = evidence / EVIDENCE
    if not path.is_file():
        return None
    remedy = "delete the folder to collect it again"
    record = read_versioned_json(path, EVIDENCE_FORMAT, EVIDENCE_VERSION, "Quadric evidence", remedy)
    if record["weights_sha256"] != weights_sha256(autoencoder):
        return None
    labels = record["labels"]
    written = (labels["from_model"] or {}).get("texts", {})
    return [written.get(str(latent)) or text for latent, text in enumerate(labels["texts"])]


def write_report(report: RunReport, path: Path) -> None:
    """Write everything (.json) or the table of latents (.csv), chosen by the ending of the path."""
    columns = report.columns()
    contents = {
        ".csv": lambda: csv_text(list(columns), zip(*columns.values(), strict=True)),
        ".json": lambda: json_text(report.as_json()),
    }
    write_result(path, contents)


def quantiles(values: Tensor) -> dict[str, float]:
    """Minimum, 5 %, median, 95 % and maximum; empty for no values."""
    if not len(values):
        return {}
    ordered = values.sort().values  # torch.quantile refuses long inputs
    return {name: float(ordered[round(share * (len(ordered) - 1))]) for name, share in QUANTILES.items()}


def histogram(values: Tensor, bins: int) -> tuple[list[int], float, float]:
    """Counts in equal bins from the smallest to the largest value, with these two values."""
    if not len(values):
        return [0] * bins, 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        return [0] * (bins // 2) + [len(values)] + [0] * (bins - bins // 2 - 1), low, high
    places = ((values - low) / (high - low) * bins).long().clamp(max=bins - 1)
    return torch.bincount(places, minlength=bins).tolist(), low, high


def readable_bits(bits: float) -> str:
    """Bits as bytes with a prefix."""
    size = bits / 8
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
