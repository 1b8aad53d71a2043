"""Where activations came from, in enough detail to make them again."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from quadric.autoencoders import Provenance
from quadric.version import __version__

NOT_COMPARED = ("quadric_version",)
ROWS = "rows"
"""Stands in for a hook point where the activations are a user's own rows."""


class ProvenanceError(ValueError):
    """Activations that came from elsewhere than was asked for."""


@dataclass(frozen=True, kw_only=True)
class StreamProvenance:
    """Everything that decides the values of a stream, but not how it is batched or stored.

    Rows that a user made themselves have no model and no text; their hash says which rows they are.
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
    """Vectors are stored as the model made them; scaling them is the autoencoder's."""
    quadric_version: str = __version__
    rows_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the hash of a user's own rows only where there are such rows."""
        record = asdict(self) | {"hook_points": list(self.hook_points)}
        if self.rows_sha256 is None:
            del record["rows_sha256"]
        return record

    def for_hook_point(self, hook_point: str) -> Provenance:
        """What an autoencoder of one hook point keeps in its config; scaling to unit norm is its own doing."""
        if hook_point not in self.hook_points:
            raise ProvenanceError(f"no hook point '{hook_point}' here; there are {', '.join(self.hook_points)}")
        record = self.to_dict()
        for name in ("hook_points", "normalisation", "quadric_version", "rows_sha256"):
            record.pop(name, None)
        return Provenance(hook_point=None if hook_point == ROWS else hook_point, **record)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "StreamProvenance":
        """Read what `to_dict` gave; unknown or missing keys are errors."""
        names = {field.name for field in fields(cls)}
        if names != {*record, "rows_sha256"}:
            raise ProvenanceError(
                f"provenance has unknown fields {sorted(set(record) - names)} and lacks "
                f"{sorted(names - set(record))}; it was written by another version of quadric"
            )
        return cls(**record | {"hook_points": tuple(record["hook_points"])})

    def differences(self, asked: "StreamProvenance") -> list[str]:
        """Every field in which what is stored differs from what is asked for, both values named."""
        return differences(self.to_dict(), asked.to_dict(), NOT_COMPARED)


def differences(stored: dict[str, Any], asked: dict[str, Any], ignore: tuple[str, ...] = ()) -> list[str]:
    """`field: stored X, asked for Y` for every field that differs, nested ones by their path."""
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
