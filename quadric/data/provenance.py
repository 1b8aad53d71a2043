"""The origin of activations, in enough detail to compute them again."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from quadric._io.files import shown
from quadric._io.records import record_from_json
from quadric.model import Provenance
from quadric.version import __version__

NOT_COMPARED = ("quadric_version",)
ROWS = "rows"
"""Used as the hook point of rows that the user provides."""


class ProvenanceError(ValueError):
    """Activations whose origin differs from the requested one."""


@dataclass(frozen=True, kw_only=True)
class StreamProvenance:
    """Everything that determines the values of a stream, but not how it is batched or stored.

    Rows that the user provides have no model and no text; their hash identifies them.
    """

    model: str | None = None
    model_revision: str | None = None
    model_dtype: str | None = None
    hook_points: tuple[str, ...]
    tokenizer_fingerprint: str | None = None
    corpus: str | None = None
    corpus_revision: str | None = None
    corpus_settings: dict[str, Any] | None = None
    split: str | None = None
    packing: str | None = None
    block_length: int | None = None
    token_rules: dict[str, Any] | None = None
    normalisation: str = "none"
    """Vectors are stored as the model computes them; the autoencoder scales them."""
    quadric_version: str = __version__
    rows_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `rows_sha256` is included only for rows that the user provided."""
        record = asdict(self) | {"hook_points": list(self.hook_points)}
        if self.rows_sha256 is None:
            del record["rows_sha256"]
        return record

    def for_hook_point(self, hook_point: str) -> Provenance:
        """The provenance stored with an autoencoder of one hook point; the autoencoder itself does the scaling."""
        if hook_point not in self.hook_points:
            raise ProvenanceError(f"no hook point '{hook_point}' here; there are {', '.join(self.hook_points)}")
        record = self.to_dict()
        for name in ("hook_points", "normalisation", "quadric_version", "rows_sha256"):
            record.pop(name, None)
        return Provenance(hook_point=None if hook_point == ROWS else hook_point, **record)

    @classmethod
    def from_dict(cls, record: object) -> "StreamProvenance":
        """The inverse of `to_dict`; unknown or missing keys are errors."""
        if not isinstance(record, dict):
            raise ProvenanceError(f"provenance is {shown(record)}; expected an object")
        names = {field.name for field in fields(cls)}
        if names != {*record, "rows_sha256"}:
            raise ProvenanceError(
                f"provenance has unknown fields {sorted(set(record) - names)} and lacks "
                f"{sorted(names - set(record))}; it was written by another version of Quadric, which can read it"
            )
        return record_from_json(cls, {"rows_sha256": None, **record}, "provenance")

    def differences(self, asked: "StreamProvenance") -> list[str]:
        """Every field in which the stored provenance differs from the requested one, with both values."""
        return differences(self.to_dict(), asked.to_dict(), NOT_COMPARED)


def differences(stored: dict[str, Any], asked: dict[str, Any], ignore: tuple[str, ...] = ()) -> list[str]:
    """`field: stored X, asked for Y` for every field that differs; nested fields are named by their path."""
    found = []
    for name in [*stored, *(name for name in asked if name not in stored)]:
        here, there = stored.get(name), asked.get(name)
        if name in ignore or here == there:
            continue
        if isinstance(here, dict) and isinstance(there, dict):
            found += [f"{name}.{line}" for line in differences(here, there)]
        else:
            found.append(f"{name}: stored {json.dumps(here)}, asked for {json.dumps(there)}")
    return found
