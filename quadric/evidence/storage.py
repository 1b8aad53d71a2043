"""Evidence on disk: two safetensors files and an evidence.json that names them, written last."""

import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from quadric._io.array_file import load_stored, replaced_arrays
from quadric._io.files import name_disk_errors, read_versioned_json, remove_leftovers, write_atomically
from quadric._io.records import record_from_json
from quadric.evidence.calibration import Calibration
from quadric.evidence.record import (
    Contexts,
    Evidence,
    EvidenceSettings,
    FiringStatistics,
    Labels,
    Points,
    TextRead,
)
from quadric.model import Provenance

FORMAT = "quadric-evidence"
FORMAT_VERSION = 2
NAME = "evidence.json"
AGAIN = "collect the evidence again: delete the folder, then quadric site"
LEFTOVERS = r"(?:points|rest)-[0-9a-f]+\.safetensors|collecting\.safetensors|evidence\.json|quadric-files\.json"
"""Files that a killed process may have left under temporary names."""

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class EvidenceFile:
    """evidence.json."""

    format: str
    format_version: int
    n_tokens: int
    weights_sha256: str
    corpus_licence: str | None
    notes: list[str]
    probabilities: list[float]
    settings: dict[str, Any]
    provenance: dict[str, Any]
    labels: dict[str, Any]
    points: dict[str, Any]
    rest: dict[str, Any]


def save_evidence(evidence: Evidence, folder: str | os.PathLike[str]) -> None:
    """Write into the folder; if it is interrupted, the folder holds the old evidence or the new, complete."""
    folder = Path(folder)
    with name_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _save(evidence, folder)


def _save(evidence: Evidence, folder: Path) -> None:
    remove_leftovers(folder, LEFTOVERS)
    with replaced_arrays(folder, NAME, FORMAT) as store:
        record = EvidenceFile(
            format=FORMAT,
            format_version=FORMAT_VERSION,
            n_tokens=evidence.n_tokens,
            weights_sha256=evidence.weights_sha256,
            corpus_licence=evidence.corpus_licence,
            notes=evidence.notes,
            probabilities=list(evidence.statistics.probabilities),
            settings=asdict(evidence.settings),
            provenance=asdict(evidence.provenance),
            labels=asdict(evidence.labels),
            points=store("points", _arrays(evidence.points, "")),
            rest=store("rest", _rest(evidence)),
        )
        _write_record(folder, record)


def load_evidence(folder: str | os.PathLike[str]) -> Evidence:
    """Read what `save_evidence` wrote; anything else is an error."""
    folder = Path(folder)
    record = read_record(folder)
    points = load_stored(folder, record.points, folder / NAME, AGAIN)
    rest = load_stored(folder, record.rest, folder / NAME, AGAIN)
    where = str(folder / NAME)
    labels = _labels_from_json(record.labels, where)
    _check_arrays(points, rest, len(labels.texts), where)
    return Evidence(
        settings=record_from_json(EvidenceSettings, record.settings, f"settings in {where}"),
        n_tokens=record.n_tokens,
        provenance=record_from_json(Provenance, record.provenance, f"provenance in {where}"),
        weights_sha256=record.weights_sha256,
        corpus_licence=record.corpus_licence,
        text=_text(rest, where),
        points=Points(**points),
        contexts=Contexts(**_part(rest, "contexts.")),
        statistics=FiringStatistics(**_part(rest, "statistics."), probabilities=tuple(record.probabilities)),
        labels=labels,
        calibration=Calibration.from_arrays(_part(rest, "calibration.")),
        notes=record.notes,
    )


def has_evidence(folder: Path) -> bool:
    """Whether a folder holds finished evidence."""
    return (folder / NAME).is_file()


def replace_labels(folder: Path, labels: Labels) -> None:
    """Change the labels of stored evidence and nothing else."""
    _write_record(folder, replace(read_record(folder), labels=asdict(labels)))


def read_record(folder: Path) -> EvidenceFile:
    """Read and check evidence.json alone."""
    path = folder / NAME
    if not path.is_file():
        raise FileNotFoundError(f"no {NAME} in '{folder}'; make evidence with quadric site RUN --out DIR")
    values = read_versioned_json(path, FORMAT, FORMAT_VERSION, "Quadric evidence", AGAIN, since="0.2")
    return record_from_json(EvidenceFile, values, str(path))


def _write_record(folder: Path, record: EvidenceFile) -> None:
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / NAME, (text + "\n").encode())


def _arrays(part: object, prefix: str) -> dict[str, Array]:
    values = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    return {prefix + name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _rest(evidence: Evidence) -> dict[str, Array]:
    vocabulary = evidence.text.vocabulary
    return {
        **_arrays(evidence.text, "text."),
        "vocabulary.bytes": np.frombuffer(b"".join(vocabulary), dtype=np.uint8),
        "vocabulary.ends": np.cumsum([len(token) for token in vocabulary], dtype=np.int64),
        **_arrays(evidence.contexts, "contexts."),
        **_arrays(evidence.statistics, "statistics."),
        **{f"calibration.{name}": array for name, array in evidence.calibration.arrays().items()},
    }


def _check_arrays(points: dict[str, Array], rest: dict[str, Array], n_latents: int, where: str) -> None:
    """Raise unless every array is there, with one row per latent where it is about latents."""
    expected = {
        **{field.name: points for field in fields(Points)},
        **{f"calibration.{name}": rest for name in ("signs", "rest", "linear")},
        **{f"contexts.{field.name}": rest for field in fields(Contexts)},
        **{f"statistics.{field.name}": rest for field in fields(FiringStatistics) if field.name != "probabilities"},
    }
    others = {f"text.{field.name}" for field in fields(TextRead) if field.name != "vocabulary"}
    others |= {f"calibration.{field.name}" for field in fields(Calibration)} - expected.keys()
    others |= {"vocabulary.bytes", "vocabulary.ends"}
    missing = [name for name, arrays in expected.items() if name not in arrays] + sorted(others - rest.keys())
    if missing or points.keys() | rest.keys() != {*expected, *others}:
        raise ValueError(f"the arrays named by {where} lack {', '.join(missing) or 'nothing but have others'}; {AGAIN}")
    for name, arrays in expected.items():
        if arrays[name].ndim < 1 or len(arrays[name]) != n_latents:
            raise ValueError(f"{name} named by {where} is not about {n_latents} latents; {AGAIN}")


def _text(rest: dict[str, Array], where: str) -> TextRead:
    letters, ends = rest["vocabulary.bytes"].tobytes(), rest["vocabulary.ends"].tolist()
    if ends != sorted(ends) or (ends and (ends[0] < 0 or ends[-1] != len(letters))):
        raise ValueError(f"the vocabulary named by {where} is damaged; {AGAIN}")
    vocabulary = [letters[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return TextRead(**_part(rest, "text."), vocabulary=vocabulary)


def _labels_from_json(values: dict[str, Any], where: str) -> Labels:
    labels = record_from_json(Labels, values, f"labels in {where}")
    counts = {len(each) for each in (labels.texts, labels.positive, labels.negative, labels.scores or labels.texts)}
    if len(counts) > 1:
        raise ValueError(f"labels in {where} are about different numbers of latents; {AGAIN}")
    return labels
