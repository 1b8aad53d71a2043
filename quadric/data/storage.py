"""A cache on disk: shards, and the manifest that lists them with their checksums and their provenance.

A shard holds the kept tokens of a few forward passes, and all tokens that those passes read. It is listed only once it
is on disk under its final name, and the manifest is replaced atomically. However a harvest ends, the listed shards are
complete; anything else in the folder is left over from an interrupted write.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import pad

from quadric._io.files import read_json, shown, write_atomically
from quadric._io.records import record_from_json
from quadric.data.batches import COLUMNS, concatenated
from quadric.data.live_stream import ForwardPass
from quadric.data.provenance import StreamProvenance, differences
from quadric.data.settings import StoredDtype
from quadric.data.token_rules import TokenCounts

FORMAT = 2
NAME = "manifest.json"
SHARD_FILE = re.compile(r"(?:part-(?P<part>\d+)-of-(?P<count>[1-9]\d*)/)?shard-(?P<number>\d{5,9})\.safetensors")
"""File of a shard, in the folder of the cache or of one of its parts."""


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
    path, remedy = folder / NAME, "delete the folder and harvest again"
    if not path.is_file():
        if any(folder.glob("part-*-of-*")):
            raise CacheError(f"the parts in {folder} are not joined; run any of them again to see which are missing")
        raise CacheError(f"{folder} has no {NAME}; give a folder that `quadric harvest` wrote")
    try:
        record = read_json(path, remedy)
    except ValueError as problem:
        raise CacheError(str(problem)) from None
    if not isinstance(record, dict) or "format" not in record:
        raise CacheError(f"{path} is damaged ({shown(record)} is no manifest); {remedy}")
    if (version := record.pop("format")) != FORMAT:
        origin = ", of Quadric 0.1" if version == 1 else ""
        raise CacheError(f"{path} has format {shown(version)}{origin}; expected {FORMAT}: harvest again")
    if isinstance(provenance := record.get("provenance"), dict):
        record["provenance"] = {"rows_sha256": None} | provenance
    try:
        manifest = record_from_json(Manifest, record, NAME)
        _check_shards(manifest)
    except (TypeError, ValueError) as wrong:
        raise CacheError(f"{path} is damaged ({wrong}); {remedy}") from None
    return manifest


def _check_shards(manifest: Manifest) -> None:
    """Raise unless every shard is a different file of this folder and begins where its number says."""
    last = -1
    for shard in manifest.shards:
        name = SHARD_FILE.fullmatch(shard.file)
        number = -1 if name is None else int(name["number"])
        if name is None or number <= last or (name["part"] and int(name["part"]) != number % int(name["count"])):
            raise ValueError(f"shard {shown(shard.file)} is not a file of this cache, or not in order")
        if min(shard.rows, shard.sequences, shard.bytes) < 0:
            raise ValueError(f"{shard.file} has fewer than no rows, sequences or bytes")
        if shard.first_sequence != number * manifest.layout.sequences_per_shard:
            raise ValueError(f"{shard.file} begins at sequence {shown(shard.first_sequence)}")
        last = number
    if manifest.layout.d_model < 1:
        raise ValueError(f"d_model={shown(manifest.layout.d_model)} is not positive")


def check_size(path: Path, shard: Shard) -> None:
    """Raise unless the file of a shard has the recorded size."""
    if not path.is_file() or path.stat().st_size != shard.bytes:
        raise damaged(path)


def damaged(path: Path) -> CacheError:
    """The error for a shard that is not what the manifest says; a part can be harvested again without the others."""
    return CacheError(f"{path} is missing or damaged; delete {path.parent} and harvest again")


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.safetensors"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    content = json.dumps(manifest.to_record(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / NAME, content.encode())


DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
COLUMN_DTYPES = {"token_ids": torch.int32, "positions": torch.int32}
NO_TOKEN = -1


def write_shard(path: Path, passes: list[ForwardPass], room: int, layout: Layout) -> Shard:
    """Write the first `room` tokens of some forward passes."""
    tensors = shard_tensors(passes, room, layout)
    data = save(tensors)
    write_atomically(path, data)
    return Shard(
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        rows=len(tensors["token_ids"]),
        first_sequence=passes[0].sequences.first,
        sequences=len(tensors["sequence_tokens"]),
        counts=sum((forward.counts for forward in passes), TokenCounts()),
        cut=len(tensors["token_ids"]) == room,
    )


def shard_tensors(passes: list[ForwardPass], room: int, layout: Layout) -> dict[str, Tensor]:
    """Contents of a shard: up to `room` token vectors with their positions, and all tokens of their sequences."""
    batch = concatenated([each.batch for each in passes]).rows(0, room)
    columns = {
        name: getattr(batch, name).to(COLUMN_DTYPES.get(name, torch.int64)).cpu().contiguous() for name in COLUMNS
    }
    vectors: dict[str, Tensor] = {}
    for name, values in batch.activations.items():
        vectors |= stored_vectors(values, layout, name)
    return {**vectors, **columns, "sequence_tokens": _sequence_tokens(passes)}


def stored_vectors(values: Float[Tensor, "n d"], layout: Layout, name: str) -> dict[str, Tensor]:
    """The tensors that hold the vectors of one hook point: directions and lengths, or the vectors themselves."""
    dtype = DTYPES[layout.dtype]
    if not layout.unit_vectors:
        return {f"activations.{name}": values.to(dtype).cpu().contiguous()}
    lengths = torch.linalg.vector_norm(values, dim=1)  # finite and positive: the token rules refuse others
    directions = (values / lengths[:, None]).to(dtype)  # at most 1, so no dtype overflows
    return {
        f"activations.{name}": directions.cpu().contiguous(),
        f"lengths.{name}": lengths.cpu().contiguous(),
    }


def _sequence_tokens(passes: list[ForwardPass]) -> Int[Tensor, "s l"]:
    """All token ids that the model read, so that the context of a kept token can be shown; padding is -1."""
    length = max(each.sequences.tokens.shape[1] for each in passes)
    rows = [each.sequences.tokens.masked_fill(~each.sequences.mask, NO_TOKEN) for each in passes]
    return torch.cat([pad(row, (0, length - row.shape[1]), value=NO_TOKEN) for row in rows]).int().cpu().contiguous()
