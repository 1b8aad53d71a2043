"""The table of contents of a cache folder: what its shards hold, their checksums, and where it all came from.

A shard is listed only after its bytes are on the disk under their final name, and the manifest is replaced in
one step. Whatever ends a harvest, the listed shards are whole; anything else in the folder is debris.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quadric._files import write_atomically
from quadric.activations.provenance import StreamProvenance, differences
from quadric.activations.settings import StoredDtype
from quadric.activations.token_rules import TokenCounts

FORMAT = 1
NAME = "manifest.json"


class CacheError(ValueError):
    """A cache folder that cannot be used as asked."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How activations are stored; it decides the bytes, so a harvest can only go on with the same."""

    dtype: StoredDtype
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
    """Whether the wanted number of tokens was reached in this shard; it is made anew if more are wanted."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of a cache folder."""

    provenance: StreamProvenance
    layout: Layout
    shards: tuple[Shard, ...] = ()
    exhausted: bool = False
    """Whether the corpus ended."""
    tail_tokens: int = 0
    """Tokens at the end of the corpus that did not fill a block."""

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def counts(self) -> TokenCounts:
        return sum((shard.counts for shard in self.shards), TokenCounts())

    def holds(self, tokens: int) -> bool:
        """Whether nothing is left to do for so many tokens."""
        return self.exhausted or self.rows >= tokens

    def check_matches(self, provenance: StreamProvenance, layout: Layout, folder: Path) -> None:
        """Refuse to go on with activations that come from elsewhere or are stored otherwise."""
        found = self.provenance.differences(provenance) + differences(asdict(self.layout), asdict(layout))
        if found:
            raise CacheError(
                f"the cache in {folder} does not match what is asked for ({'; '.join(found)}); "
                "give another folder, or ask for what it holds"
            )

    def to_json(self) -> str:
        record = {"format": FORMAT, **asdict(self), "provenance": self.provenance.to_dict()}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a cache folder, or an error that says what is there instead."""
    path = folder / NAME
    if not path.is_file():
        raise CacheError(f"{folder} has no {NAME}; give a folder that `quadric harvest` wrote")
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("format") != FORMAT:
            raise CacheError(f"{path} has another format than {FORMAT}; harvest it anew with this version")
        return Manifest(
            provenance=StreamProvenance.from_dict(record.pop("provenance")),
            layout=Layout(**record.pop("layout")),
            shards=tuple(_shard(shard) for shard in record.pop("shards")),
            **record,
        )
    except (KeyError, TypeError, json.JSONDecodeError) as wrong:
        raise CacheError(f"{path} is damaged ({wrong}); delete the folder and harvest anew") from wrong


def _shard(record: dict[str, Any]) -> Shard:
    return Shard(**record | {"counts": TokenCounts(**record["counts"])})


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / NAME, manifest.to_json().encode())
