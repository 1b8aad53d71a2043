"""Write a cache of activations: shards of whole sequences, each added to the manifest once it is on disk.

A shard holds a fixed number of sequences, and no forward pass is split between two shards. A harvest that is resumed
after `kill -9` therefore writes the same bytes as an uninterrupted one (on the same machine with the same number of
threads, which affect the last bits of a matrix product).

Several workers can share a harvest. Shard f belongs to part f mod n, and each part is a cache of its own with an equal
share of the tokens. The last part to finish joins them: it lists the shards of all parts in one manifest.

    OUT/part-0-of-3/manifest.json, shard-00000.safetensors, shard-00003.safetensors, …
    OUT/part-1-of-3/manifest.json, shard-00001.safetensors, …
    OUT/manifest.json
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from quadric._io.files import remove_leftovers
from quadric._io.locks import entries, only_writer
from quadric._io.progress import Progress, no_progress
from quadric.data.batches import BatchSize
from quadric.data.live_stream import ForwardPass, LiveStream
from quadric.data.models import find_model, load_model, load_shape
from quadric.data.provenance import ActivationConfig, StreamProvenance, provenance_of
from quadric.data.settings import HarvestConfig, HarvestPart
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
JOIN_PATIENCE = 60.0
"""Seconds to wait for another part that is joining them."""


class HarvestReport(NamedTuple):
    """Result of a harvest."""

    folder: Path
    """Of the cache, or of the part that was asked for."""
    manifest: Manifest
    """Of this folder."""
    tokens_before: int
    """Tokens that the folder held before this call."""
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
    fresh, part = Manifest(provenance=provenance, layout=layout), storage.part
    target, tokens = (folder, storage.tokens) if part.is_whole else (folder / part.folder, part.share(storage.tokens))
    if part.is_whole:
        _check_not_in_parts(folder, tokens)
    else:
        _check_other_parts(folder, part, fresh)
    with only_writer(target, "quadric harvest"):
        manifest = _manifest_to_continue(target, fresh, tokens)
        before = manifest.rows
        if not manifest.holds(tokens):
            if not part.is_whole:
                (folder / NAME).unlink(missing_ok=True)  # it lists the last shard of this part, which grows now
            manifest = _fill(target, manifest, open_stream(), tokens, part, on_progress)
    report = HarvestReport(target, manifest, before)
    return report if part.is_whole else _joined(folder, storage.tokens, part.count, report)


def _check_not_in_parts(folder: Path, tokens: int) -> None:
    parts = sorted(path.name for path in folder.glob("part-*-of-*"))
    if parts and not ((folder / NAME).is_file() and read_manifest(folder).holds(tokens)):
        raise CacheError(
            f"{folder} holds parts of a cache ({parts[0]} …); run every part with --tokens {tokens} --shard, or give "
            "another folder"
        )


def _check_other_parts(folder: Path, part: HarvestPart, fresh: Manifest) -> None:
    """Raise unless everything in the folder belongs to the same cache."""
    if (folder / NAME).is_file() and all("/" not in shard.file for shard in read_manifest(folder).shards):
        raise CacheError(f"{folder} was harvested without --shard; leave --shard out, or give another folder")
    for path in entries(folder):
        if NAME in path.name:  # written, or being written, by a part that joins the others
            continue
        if not path.match("part-*-of-*"):
            raise CacheError(f"{folder} holds other files ({path.name} …); give an empty or a new folder")
        if not path.name.endswith(f"-of-{part.count}"):
            raise CacheError(f"{folder} holds {path.name}, which is none of {part.count} parts; give another folder")
        if (path / NAME).is_file():
            read_manifest(path).check_matches(fresh.provenance, fresh.layout, path)


def _joined(folder: Path, tokens: int, count: int, report: HarvestReport) -> HarvestReport:
    """Write the manifest of the whole cache if no part is missing."""
    parts = [HarvestPart(number, count) for number in range(count)]
    manifests = {part: read_manifest(folder / part.folder) for part in parts if (folder / part.folder / NAME).is_file()}
    missing = [part for part in parts if part not in manifests or not manifests[part].holds(part.share(tokens))]
    if missing:
        names = ", ".join(map(str, missing))
        return report._replace(
            waiting=f"{f'part {names} is' if len(missing) == 1 else f'parts {names} are'} missing or unfinished in "
            f"{folder}, which is to hold {tokens} tokens; run quadric harvest --tokens {tokens} --shard {missing[0]} "
            "with the settings of the others"
        )
    shards = [
        replace(shard, file=f"{part.folder}/{shard.file}")
        for part, manifest in manifests.items()
        for shard in manifest.shards
    ]
    joined = replace(
        report.manifest,
        shards=tuple(sorted(shards, key=lambda shard: shard.first_sequence)),
        exhausted=any(manifest.exhausted for manifest in manifests.values()),
        tail_tokens=max(manifest.tail_tokens for manifest in manifests.values()),
    )
    with only_writer(folder, "quadric harvest, joining its parts", patience=JOIN_PATIENCE):
        write_manifest(folder, joined)
    return report._replace(joined=joined)


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
    stored.check_matches(fresh.provenance, fresh.layout, folder)
    for shard in stored.shards:
        check_size(folder / shard.file, shard)
    if not stored.holds(tokens) and stored.shards and stored.shards[-1].cut:
        return replace(stored, shards=stored.shards[:-1])
    return stored


def _fill(
    folder: Path, manifest: Manifest, stream: LiveStream, tokens: int, part: HarvestPart, on_progress: Progress
) -> Manifest:
    before, waiting, held = manifest.rows, list[ForwardPass](), 0
    on_progress("harvest", before, tokens, "tokens")
    passes_per_shard = manifest.layout.sequences_per_shard // manifest.layout.sequences_per_forward
    passes = stream.passes(
        start=part.shard(len(manifest.shards)) * passes_per_shard,
        belongs=lambda index: index // passes_per_shard % part.count == part.number,
    )
    # Cut before it is read ahead: the thread must not run a pass beyond the last missing token.
    with closing(stream.ahead(_up_to(passes, tokens - before))) as passes:
        for forward in passes:
            waiting.append(forward)
            held += len(forward.batch)
            on_progress("harvest", min(manifest.rows + held, tokens), tokens, "tokens")
            if len(waiting) == passes_per_shard or manifest.rows + held >= tokens:
                manifest = _add_shard(folder, manifest, waiting, tokens, part)
                waiting, held = [], 0
            if manifest.rows >= tokens:
                return manifest
    if waiting:
        manifest = _add_shard(folder, manifest, waiting, tokens, part)
    tail = stream.blocks.tail_tokens if stream.blocks else 0
    manifest = replace(manifest, exhausted=True, tail_tokens=tail)
    write_manifest(folder, manifest)
    return manifest


def _up_to(passes: Iterable[ForwardPass], tokens: int) -> Iterator[ForwardPass]:
    held = 0
    for forward in passes:
        held += len(forward.batch)
        yield forward
        if held >= tokens:
            return


def _add_shard(folder: Path, manifest: Manifest, passes: list[ForwardPass], tokens: int, part: HarvestPart) -> Manifest:
    path = folder / shard_name(part.shard(len(manifest.shards)))
    shard = write_shard(path, passes, tokens - manifest.rows, manifest.layout)
    manifest = replace(manifest, shards=(*manifest.shards, shard))
    write_manifest(folder, manifest)
    return manifest
