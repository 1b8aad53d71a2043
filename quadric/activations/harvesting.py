"""Write a cache of activations: shards of whole sequences, each added to the manifest once it is on disk.

A shard holds a fixed number of sequences, and no forward pass is split between two shards. A harvest that is resumed
after `kill -9` therefore writes the same bytes as an uninterrupted one (on the same machine with the same number of
threads, which affect the last bits of a matrix product).
"""

import hashlib
import re
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import pad

from quadric._files import remove_leftovers, write_atomically
from quadric._locks import entries, only_writer
from quadric.activations.batches import COLUMNS, BatchSize, concatenated
from quadric.activations.config import ActivationConfig, provenance_of
from quadric.activations.live_stream import ForwardPass, LiveStream
from quadric.activations.manifest import (
    NAME,
    CacheError,
    Layout,
    Manifest,
    Shard,
    read_manifest,
    shard_name,
    write_manifest,
)
from quadric.activations.models import find_model, load_model, load_shape
from quadric.activations.prefetch import prefetched
from quadric.activations.provenance import StreamProvenance
from quadric.activations.settings import HarvestConfig
from quadric.activations.token_rules import TokenCounts

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
COLUMN_DTYPES = {"token_ids": torch.int32, "positions": torch.int32}
NO_TOKEN = -1
OWN_FILES = rf"shard-\d+\.safetensors|{re.escape(NAME)}"
OWN_NAME = re.compile(rf"{OWN_FILES}|\.(?:{OWN_FILES})\.\d+")
"""Names of the files in a cache, and of what a killed harvest leaves."""


class Progress(NamedTuple):
    """Progress of a harvest, in tokens."""

    done: int
    wanted: int
    here: int
    """Tokens computed by this call; the rest was stored before."""


class HarvestReport(NamedTuple):
    """Result of a harvest."""

    manifest: Manifest
    tokens_before: int
    """Tokens that the folder held before this call."""

    @property
    def nothing_to_do(self) -> bool:
        return self.tokens_before == self.manifest.rows


def harvest_to_folder(
    config: ActivationConfig,
    storage: HarvestConfig,
    folder: Path,
    *,
    device: str = "auto",
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> HarvestReport:
    """Fill a cache folder up to the wanted number of tokens; if it holds them already, do nothing."""
    source = find_model(config.model, config.model_revision)
    shape = load_shape(source)
    provenance = provenance_of(config, source, shape, device)

    def open_stream() -> LiveStream:
        model = load_model(source, device=device, dtype=config.model_dtype)
        return LiveStream(config, model, batch=BatchSize(sequences=1), provenance=provenance)

    return fill_folder(
        folder, storage, provenance, shape.d_model, config.sequences_per_forward, open_stream, on_progress
    )


def fill_folder(
    folder: Path,
    storage: HarvestConfig,
    provenance: StreamProvenance,
    d_model: int,
    sequences_per_forward: int,
    open_stream: Callable[[], LiveStream],
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> HarvestReport:
    """Fill a cache folder from a stream, which is opened only if tokens are missing."""
    # A whole number of forward passes per shard, so that no pass is split between two shards.
    passes = max(1, round(storage.sequences_per_shard / sequences_per_forward))
    layout = Layout(
        dtype=storage.dtype,
        unit_vectors=storage.dtype != "float32",
        d_model=d_model,
        sequences_per_forward=sequences_per_forward,
        sequences_per_shard=passes * sequences_per_forward,
    )
    if folder.exists() and not folder.is_dir():
        raise CacheError(f"'{folder}' is a file; give a folder for the activations")
    with only_writer(folder, "quadric harvest"):
        manifest = _manifest_to_continue(folder, Manifest(provenance=provenance, layout=layout), storage.tokens)
        before = manifest.rows
        if not manifest.holds(storage.tokens):
            manifest = _fill(folder, manifest, open_stream(), storage.tokens, passes, on_progress)
    return HarvestReport(manifest, before)


def _manifest_to_continue(folder: Path, fresh: Manifest, tokens: int) -> Manifest:
    """The stored manifest, which must match `fresh`, or `fresh` itself; removes leftovers of a killed harvest."""
    if not (folder / NAME).is_file():
        # Before anything is deleted: a folder with other files is not a cache, whatever their names look like.
        if others := [path.name for path in entries(folder) if not OWN_NAME.fullmatch(path.name)]:
            raise CacheError(f"{folder} holds other files ({others[0]} …); give an empty or a new folder")
        remove_leftovers(folder, OWN_FILES)
        return fresh
    remove_leftovers(folder, OWN_FILES)
    stored = read_manifest(folder)
    # A cache of an earlier version is continued as it was begun.
    layout = replace(fresh.layout, unit_vectors=stored.layout.unit_vectors)
    stored.check_matches(fresh.provenance, layout, folder)
    for shard in stored.shards:
        path = folder / shard.file
        if not path.is_file() or path.stat().st_size != shard.bytes:
            raise CacheError(f"{path} is missing or damaged; delete {folder} and harvest again")
    if not stored.holds(tokens) and stored.shards and stored.shards[-1].cut:
        return replace(stored, shards=stored.shards[:-1])
    return stored


def _fill(
    folder: Path,
    manifest: Manifest,
    stream: LiveStream,
    tokens: int,
    passes_per_shard: int,
    on_progress: Callable[[Progress], None],
) -> Manifest:
    before, waiting, held = manifest.rows, list[ForwardPass](), 0
    on_progress(Progress(before, tokens, 0))
    with closing(_passes(stream, start=len(manifest.shards) * passes_per_shard)) as passes:
        for forward in passes:
            waiting.append(forward)
            held += len(forward.batch)
            on_progress(Progress(min(manifest.rows + held, tokens), tokens, manifest.rows + held - before))
            if len(waiting) == passes_per_shard or manifest.rows + held >= tokens:
                manifest = _add_shard(folder, manifest, waiting, tokens)
                waiting, held = [], 0
            if manifest.rows >= tokens:
                return manifest
    if waiting:
        manifest = _add_shard(folder, manifest, waiting, tokens)
    tail = stream.blocks.tail_tokens if stream.blocks else 0
    manifest = replace(manifest, exhausted=True, tail_tokens=tail)
    write_manifest(folder, manifest)
    return manifest


def _passes(stream: LiveStream, start: int) -> Generator[ForwardPass]:
    yield from prefetched(stream.passes(start=start), stream.prefetch)


def _add_shard(folder: Path, manifest: Manifest, passes: list[ForwardPass], tokens: int) -> Manifest:
    number, room = len(manifest.shards), tokens - manifest.rows
    tensors = shard_tensors(passes, room, manifest.layout)
    data = save(tensors)
    rows = len(tensors["token_ids"])
    shard = Shard(
        file=shard_name(number),
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        rows=rows,
        first_sequence=passes[0].sequences.first,
        sequences=sum(len(each.kept_per_sequence) for each in passes),
        counts=sum((each.counts for each in passes), TokenCounts()),
        cut=rows == room,
    )
    write_atomically(folder / shard.file, data)
    manifest = replace(manifest, shards=(*manifest.shards, shard))
    write_manifest(folder, manifest)
    return manifest


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
        return {f"activations.{name}": stored_as(values, dtype, name).cpu().contiguous()}
    lengths = torch.linalg.vector_norm(values, dim=1)  # finite and positive: the token rules refuse others
    directions = stored_as(values / lengths[:, None], dtype, name)
    return {
        f"activations.{name}": directions.cpu().contiguous(),
        f"lengths.{name}": lengths.cpu().contiguous(),
    }


def stored_as(values: Float[Tensor, "n d"], dtype: torch.dtype, name: str) -> Float[Tensor, "n d"]:
    """Values in the dtype of the cache; raises if they overflow it."""
    stored = values.to(dtype)
    if not bool(torch.isfinite(stored).all()):
        largest, kind = values.abs().max(), str(dtype).removeprefix("torch.")
        raise CacheError(
            f"an activation of {largest:.0f} at {name} overflows {kind}; store bfloat16 or float32 instead"
        )
    return stored


def _sequence_tokens(passes: list[ForwardPass]) -> Int[Tensor, "s l"]:
    """All token ids that the model read, so that the context of a kept token can be shown; padding is -1."""
    length = max(each.sequences.tokens.shape[1] for each in passes)
    rows = [each.sequences.tokens.masked_fill(~each.sequences.mask, NO_TOKEN) for each in passes]
    return torch.cat([pad(row, (0, length - row.shape[1]), value=NO_TOKEN) for row in rows]).int().cpu().contiguous()
