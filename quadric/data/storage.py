"""A cache on disk: shards, and the manifest that lists them with their checksums and their provenance.

A shard holds the kept tokens of a few forward passes, and all tokens that those passes read. It is listed only once it
is on disk under its final name, and the manifest is replaced atomically. However a harvest ends, the listed shards are
complete; anything else in the folder is left over from an interrupted write.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import pad

from quadric._io.files import read_json, sha256_of_file, shown, write_atomically
from quadric._io.records import check_keys, record_from_json
from quadric.data.batches import COLUMNS, concatenated
from quadric.data.live_stream import ForwardPass
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


DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
COLUMN_DTYPES = {"token_ids": torch.int32, "positions": torch.int32}
NO_TOKEN = -1
PASSES = "passes"
"""Metadata of a shard: the token counts of each of its forward passes, so that it can be cut without the model."""


def write_shard(path: Path, passes: list[ForwardPass], room: int, layout: Layout) -> Shard:
    """Write the first `room` tokens of some forward passes."""
    tensors, counts = shard_tensors(passes, room, layout), [each.counts for each in passes]
    return _write(path, tensors, counts, passes[0].sequences.first, cut=len(tensors["token_ids"]) == room)


def cut_shard(source: Path, target: Path, shard: Shard, room: int, layout: Layout) -> Shard:
    """Write the first `room` tokens of a shard to another file: the bytes that `write_shard` would have written."""
    with safe_open(source, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
        counts = [TokenCounts(**each) for each in json.loads(file.metadata()[PASSES])]
    # A harvest ends with the forward pass that reaches the wanted number of tokens.
    n_passes = 1 + sum(kept < room for kept in accumulate(each.kept for each in counts))
    sequences = tensors.pop("sequence_tokens")[: n_passes * layout.sequences_per_forward]
    length = int((sequences != NO_TOKEN).sum(dim=1).max())
    cut = {name: values[:room].contiguous() for name, values in tensors.items()}
    cut["sequence_tokens"] = sequences[:, :length].contiguous()
    return _write(target, cut, counts[:n_passes], shard.first_sequence, cut=True)


def _write(path: Path, tensors: dict[str, Tensor], counts: Sequence[TokenCounts], first: int, *, cut: bool) -> Shard:
    data = save(tensors, {PASSES: json.dumps([asdict(each) for each in counts])})
    write_atomically(path, data)
    return Shard(
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        rows=len(tensors["token_ids"]),
        first_sequence=first,
        sequences=len(tensors["sequence_tokens"]),
        counts=sum(counts, TokenCounts()),
        cut=cut,
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
