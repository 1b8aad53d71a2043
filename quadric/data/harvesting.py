"""Write a cache of activations: shards of whole sequences, each added to the manifest once it is on disk.

A shard holds a fixed number of sequences, and no forward pass is split between two shards. A harvest that is resumed
after `kill -9` therefore writes the same bytes as an uninterrupted one (on the same machine with the same number of
threads, which affect the last bits of a matrix product).
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from quadric._io.files import remove_leftovers
from quadric._io.locks import entries, only_writer
from quadric._io.progress import Progress, no_progress
from quadric.data.batches import BatchSize, prefetched
from quadric.data.live_stream import ForwardPass, LiveStream
from quadric.data.models import find_model, load_model, load_shape
from quadric.data.parts import Part, UnjoinedError, harvest_part, join, read_parts
from quadric.data.provenance import ActivationConfig, StreamProvenance, provenance_of
from quadric.data.settings import HarvestConfig
from quadric.data.storage import (
    NAME,
    CacheError,
    Layout,
    Manifest,
    check_size,
    read_manifest,
    shard_name,
    write_manifest,
    write_shard,
)

OWN_FILES = rf"shard-\d+\.safetensors|{re.escape(NAME)}"
OWN_NAME = re.compile(rf"{OWN_FILES}|\.(?:{OWN_FILES})\.\d+")
"""Names of the files in a cache, and of what a killed harvest leaves."""


class HarvestReport(NamedTuple):
    """Result of a harvest."""

    manifest: Manifest
    """Of the cache, or of the part that was asked for."""
    tokens_before: int
    """Tokens that the folder, or the part, held before this call."""
    joined: Manifest | None = None
    """Of the whole cache, if this call asked for a part and all of them are there."""
    waiting: str | None = None
    """Which parts are missing, if some are."""

    @property
    def nothing_to_do(self) -> bool:
        return self.tokens_before == self.manifest.rows


def harvest_to_folder(
    config: ActivationConfig,
    storage: HarvestConfig,
    folder: Path,
    *,
    device: str = "auto",
    on_progress: Progress = no_progress,
) -> HarvestReport:
    """Fill a cache folder, or a part of it, up to the wanted number of tokens; if it holds them already, do nothing.

    Args:
        config: Model, text, hook points and token rules.
        storage: How many tokens are stored and how; `shard="3/8"` stores one of eight parts, which are joined by
            whichever is finished last.
        folder: Of the cache; created if it is missing. Parts share it.
        device: `cpu`, `cuda`, …
        on_progress: Called as tokens are stored.

    Returns:
        What the folder, or the part, holds now, and the whole cache if its parts were joined.

    Example:
        >>> from quadric.data import ActivationConfig, HarvestConfig, harvest_to_folder
        >>> from quadric.data.corpus import CorpusConfig
        >>> config = ActivationConfig(model="my-model", hook_points="2", corpus=CorpusConfig(source="texts.jsonl"))
        >>> report = harvest_to_folder(config, HarvestConfig(tokens=500), Path("cache"))
        >>> report.manifest.rows
        500
    """
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
    on_progress: Progress = no_progress,
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
    if storage.part is not None:
        fresh = Manifest(provenance=provenance, layout=layout)
        return _fill_part(
            folder, Part(place=storage.part, tokens=storage.tokens, manifest=fresh), open_stream, on_progress
        )
    with only_writer(folder, "quadric harvest"):
        manifest = _manifest_to_continue(folder, Manifest(provenance=provenance, layout=layout), storage.tokens)
        before = manifest.rows
        if not manifest.holds(storage.tokens):
            manifest = _fill(folder, manifest, open_stream(), storage.tokens, passes, on_progress)
    return HarvestReport(manifest, before)


def _fill_part(
    folder: Path, fresh: Part, open_stream: Callable[[], LiveStream], on_progress: Progress
) -> HarvestReport:
    before = next((each.manifest.rows for each in read_parts(folder) if each.place == fresh.place), 0)
    part = harvest_part(folder, fresh, open_stream, on_progress)
    try:
        return HarvestReport(part.manifest, before, joined=join(folder))
    except UnjoinedError as missing:
        return HarvestReport(part.manifest, before, waiting=str(missing))


def _manifest_to_continue(folder: Path, fresh: Manifest, tokens: int) -> Manifest:
    """The stored manifest, which must match `fresh`, or `fresh` itself; removes leftovers of a killed harvest."""
    if not (folder / NAME).is_file():
        if parts := read_parts(folder):
            raise CacheError(f"{folder} holds parts of a cache; give --shard {parts[0].place} …, or another folder")
        # Before anything is deleted: a folder with other files is not a cache, whatever their names look like.
        if others := [path.name for path in entries(folder) if not OWN_NAME.fullmatch(path.name)]:
            raise CacheError(f"{folder} holds other files ({others[0]} …); give an empty or a new folder")
        remove_leftovers(folder, OWN_FILES)
        return fresh
    remove_leftovers(folder, OWN_FILES)
    stored = read_manifest(folder)
    stored.check_matches(fresh.provenance, fresh.layout, folder)
    for shard in stored.shards:
        check_size(folder / shard.file, shard)
    if not stored.holds(tokens) and (parts := read_parts(folder)):
        raise CacheError(
            f"{folder} holds {stored.rows} of {tokens} tokens, in {parts[0].place.count} parts; "
            f"run every part again: --tokens {tokens} --shard {parts[0].place} …"
        )
    if not stored.holds(tokens) and stored.shards and stored.shards[-1].cut:
        return replace(stored, shards=stored.shards[:-1])
    return stored


def _fill(
    folder: Path,
    manifest: Manifest,
    stream: LiveStream,
    tokens: int,
    passes_per_shard: int,
    on_progress: Progress,
) -> Manifest:
    before, waiting, held = manifest.rows, list[ForwardPass](), 0
    on_progress("harvest", before, tokens, "tokens")
    start = len(manifest.shards) * passes_per_shard
    with closing(_passes(stream, start, tokens - before)) as passes:
        for forward in passes:
            waiting.append(forward)
            held += len(forward.batch)
            on_progress("harvest", min(manifest.rows + held, tokens), tokens, "tokens")
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


def _passes(stream: LiveStream, start: int, missing: int) -> Generator[ForwardPass]:
    """Passes up to the one with the last missing token; a thread that reads ahead does not run the next one."""
    yield from prefetched(_up_to(stream.passes(start=start), missing), stream.prefetch)


def _up_to(passes: Iterable[ForwardPass], tokens: int) -> Iterator[ForwardPass]:
    held = 0
    for forward in passes:
        held += len(forward.batch)
        yield forward
        if held >= tokens:
            return


def _add_shard(folder: Path, manifest: Manifest, passes: list[ForwardPass], tokens: int) -> Manifest:
    path = folder / shard_name(len(manifest.shards))
    shard = write_shard(path, passes, tokens - manifest.rows, manifest.layout)
    manifest = replace(manifest, shards=(*manifest.shards, shard))
    write_manifest(folder, manifest)
    return manifest
