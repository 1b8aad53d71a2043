"""The table of contents of a cache folder: its shards, their checksums, and their provenance.

A shard is listed only once it is on disk under its final name, and the manifest is replaced atomically. However a
harvest ends, the listed shards are complete; anything else in the folder is left over from an interrupted write.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from quadric._files import read_json, shown, write_atomically
from quadric._records import check_keys, record_from_json
from quadric.activations.provenance import StreamProvenance, differences
from quadric.activations.settings import StoredDtype
from quadric.activations.token_rules import TokenCounts

FORMAT = 2
"""Format 1 had no `layout.unit_vectors`: all vectors were stored at their own length."""
NAME = "manifest.json"


class CacheError(ValueError):
    """A cache folder that cannot be used for what was requested."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How activations are stored; it determines the bytes on disk, so a harvest resumes only with the same layout."""

    dtype: StoredDtype
    unit_vectors: bool
    """Whether a vector is stored as its direction and, in float32, its length; otherwise as the model computed it."""
    d_model: int
    sequences_per_forward: int
    sequences_per_shard: int


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of the cache."""

    file: str
    sha256: str
    bytes: int
    rows: int
    first_sequence: int
    sequences: int
    counts: TokenCounts
    cut: bool
    """Whether the wanted number of tokens was reached in this shard; it is computed again if more are wanted later."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of a cache folder."""

    provenance: StreamProvenance
    layout: Layout
    shards: tuple[Shard, ...] = ()
    exhausted: bool = False
    """Whether the corpus was read to its end."""
    tail_tokens: int = 0
    """Tokens at the end of the corpus that did not fill a block."""

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def counts(self) -> TokenCounts:
        return sum((shard.counts for shard in self.shards), TokenCounts())

    def holds(self, tokens: int) -> bool:
        """Whether the cache holds this many tokens, or all that the corpus has."""
        return self.exhausted or self.rows >= tokens

    def check_matches(self, provenance: StreamProvenance, layout: Layout, folder: Path) -> None:
        """Raise if the stored activations have another provenance or layout."""
        found = self.provenance.differences(provenance) + differences(asdict(self.layout), asdict(layout))
        if found:
            raise CacheError(
                f"the cache in {folder} does not match the requested activations ({'; '.join(found)}); "
                "give another folder, or request what it holds"
            )

    def to_json(self) -> str:
        record = {"format": FORMAT, **asdict(self), "provenance": self.provenance.to_dict()}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a cache folder; a missing or damaged one is an error."""
    path = folder / NAME
    if not path.is_file():
        raise CacheError(f"{folder} has no {NAME}; give a folder that `quadric harvest` wrote")
    remedy = "delete the folder and harvest again"
    try:
        record = read_json(path, remedy)
    except ValueError as problem:
        raise CacheError(str(problem)) from None
    if not isinstance(record, dict) or "format" not in record:
        raise CacheError(f"{path} is damaged ({shown(record)} is no manifest); {remedy}")
    if (found := record.pop("format")) not in (1, FORMAT):
        raise CacheError(f"{path} has format {shown(found)}, expected 1 or {FORMAT}; harvest again with this version")
    try:
        manifest = _manifest(_upgraded(record) if found == 1 else record)
        _check_shards(manifest)
    except (KeyError, TypeError, ValueError) as wrong:
        raise CacheError(f"{path} is damaged ({wrong}); {remedy}") from None
    return manifest


def _upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """A record of format 1 as it would be written today."""
    return record | {"layout": {**record["layout"], "unit_vectors": False}}


def _manifest(record: dict[str, Any]) -> Manifest:
    check_keys(record, {field.name for field in fields(Manifest)}, NAME)
    rest = record_from_json(_Rest, {name: value for name, value in record.items() if name != "provenance"}, NAME)
    return Manifest(provenance=StreamProvenance.from_dict(record["provenance"]), **vars(rest))


@dataclass(frozen=True, kw_only=True)
class _Rest:
    """The manifest without its provenance, which has a reader of its own."""

    layout: Layout
    shards: tuple[Shard, ...]
    exhausted: bool
    tail_tokens: int


def _check_shards(manifest: Manifest) -> None:
    """Raise unless every shard is a different file of this folder and continues the one before it."""
    sequence = 0
    for number, shard in enumerate(manifest.shards):
        if shard.file != shard_name(number):
            raise ValueError(f"shard {number} is {shown(shard.file)}, expected {shard_name(number)}")
        if min(shard.rows, shard.sequences, shard.bytes) < 0 or shard.first_sequence != sequence:
            raise ValueError(f"{shard.file} begins at sequence {shown(shard.first_sequence)}, expected {sequence}")
        sequence += shard.sequences
    if manifest.layout.d_model < 1:
        raise ValueError(f"d_model={shown(manifest.layout.d_model)} is not positive")


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.safetensors"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / NAME, manifest.to_json().encode())
