"""The table of contents of a cache folder: its shards, their checksums, and their provenance.

A shard is listed only once it is on disk under its final name, and the manifest is replaced atomically. However a
harvest ends, the listed shards are complete; anything else in the folder is left over from an interrupted write.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from quadric._io.files import read_json, sha256_of_file, shown, write_atomically
from quadric._io.records import check_keys, record_from_json
from quadric.data.provenance import StreamProvenance, differences
from quadric.data.settings import StoredDtype
from quadric.data.token_rules import TokenCounts

FORMAT = 2
NAME = "manifest.json"
IN_PART = re.compile(r"part-(?P<part>\d+)-of-(?P<count>\d+)/(?P<file>[^/]+)")
"""File of a shard that one of several workers harvested; see `parts`."""


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

    def to_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format": FORMAT, **asdict(self), "provenance": self.provenance.to_dict()}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a cache folder; a missing or damaged one is an error."""
    if not (folder / NAME).is_file():
        raise CacheError(f"{folder} has no {NAME}; give a folder that `quadric harvest` wrote")
    with named_damage(folder / NAME) as record:
        manifest = manifest_from_record(record)
        _check_shards(manifest)
    return manifest


@contextmanager
def named_damage(path: Path) -> Iterator[dict[str, Any]]:
    """The contents of a manifest; whatever is wrong with them inside the block is one line with file and remedy."""
    remedy = "delete the folder and harvest again"
    try:
        record = read_json(path, remedy)
    except ValueError as problem:
        raise CacheError(str(problem)) from None
    if not isinstance(record, dict) or "format" not in record:
        raise CacheError(f"{path} is damaged ({shown(record)} is no manifest); {remedy}")
    if (found := record["format"]) != FORMAT:
        origin = ", of Quadric 0.1" if found == 1 else ""
        raise CacheError(f"{path} has format {shown(found)}{origin}; expected {FORMAT}: harvest again")
    try:
        yield record
    except (KeyError, TypeError, ValueError) as wrong:
        raise CacheError(f"{path} is damaged ({wrong}); {remedy}") from None


def manifest_from_record(record: dict[str, Any]) -> Manifest:
    """The inverse of `to_record`; unknown or missing keys are errors."""
    rest = {name: value for name, value in record.items() if name != "format"}
    check_keys(rest, {field.name for field in fields(Manifest)}, NAME)
    provenance = StreamProvenance.from_dict(rest.pop("provenance"))
    return Manifest(provenance=provenance, **vars(record_from_json(_Rest, rest, NAME)))


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
        if not _is_name_of(shard.file, number):
            raise ValueError(f"shard {number} is {shown(shard.file)}, expected {shard_name(number)}")
        check_shard(shard, sequence)
        sequence += shard.sequences
    if manifest.layout.d_model < 1:
        raise ValueError(f"d_model={shown(manifest.layout.d_model)} is not positive")


def _is_name_of(file: str, number: int) -> bool:
    """Whether a file is the shard of this number, in the folder of the cache or of the part that it belongs to."""
    found = IN_PART.fullmatch(file)
    if found is None:
        return file == shard_name(number)
    part, count = int(found["part"]), int(found["count"])
    return count > 0 and part == number % count and found["file"] == shard_name(number)


def check_shard(shard: Shard, first_sequence: int) -> None:
    """Raise unless a shard begins with the given sequence."""
    if min(shard.rows, shard.sequences, shard.bytes) < 0 or shard.first_sequence != first_sequence:
        raise ValueError(f"{shard.file} begins at sequence {shown(shard.first_sequence)}, expected {first_sequence}")


def check_size(path: Path, shard: Shard) -> None:
    """Raise unless the file of a shard has the recorded size."""
    if not path.is_file() or path.stat().st_size != shard.bytes:
        raise damaged(path)


def check_content(path: Path, shard: Shard) -> None:
    """Raise unless the file of a shard has the recorded size and checksum."""
    check_size(path, shard)
    if sha256_of_file(path) != shard.sha256:
        raise damaged(path)


def damaged(path: Path) -> CacheError:
    """The error for a shard that is not what the manifest says; a part can be harvested again without the others."""
    if any(path.parent.glob("part-*-of-*")):
        return CacheError(f"{path} is missing or damaged; harvest --shard again with one of the parts")
    return CacheError(f"{path} is missing or damaged; delete {path.parent} and harvest again")


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.safetensors"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_record(folder / NAME, manifest.to_record())


def write_record(path: Path, record: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
