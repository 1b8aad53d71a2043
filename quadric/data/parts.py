"""A harvest shared by several workers: each writes some files of the cache, and one manifest joins them.

File f of the cache belongs to part f mod n, so which tokens are whose depends on nothing but n. Parts are interleaved
rather than contiguous because nobody knows beforehand where the cache ends: outliers are dropped only once the model
has run, so a contiguous part would have no known end, while interleaved parts all end at about the same file, and all
grow when more tokens are wanted later.

    OUT/part-0-of-3/shard-00000.safetensors, shard-00003.safetensors, …, part.json
    OUT/part-1-of-3/shard-00001.safetensors, …
    OUT/manifest.json                       written by the part that completes the cache
    OUT/shard-00007.safetensors             the last file, cut to the wanted number of tokens

A part holds whole files only. It does not know how many tokens the others keep and goes on until enough are certain but
for bad luck (`is_needed`); the joined manifest leaves out what is too much. Its shards have the bytes of a harvest by
one worker, and so does the last one.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from quadric._io.files import remove_leftovers
from quadric._io.locks import entries, only_writer
from quadric._io.progress import Progress, no_progress
from quadric.data.batches import prefetched
from quadric.data.live_stream import ForwardPass, LiveStream
from quadric.data.provenance import differences
from quadric.data.settings import HarvestPart
from quadric.data.storage import (
    NAME,
    CacheError,
    Manifest,
    Shard,
    check_content,
    check_shard,
    check_size,
    cut_shard,
    manifest_from_record,
    named_damage,
    read_manifest,
    shard_name,
    write_manifest,
    write_record,
    write_shard,
)

PART_NAME = "part.json"
PART_FOLDER = re.compile(r"part-(0|[1-9]\d*)-of-([1-9]\d*)")
OWN_FILES = rf"shard-\d+\.safetensors|{re.escape(PART_NAME)}|{re.escape(NAME)}"
BAD_LUCK = 3.0
"""Standard errors by which the others may keep fewer tokens than this part."""
JOIN_PATIENCE = 60.0
"""Seconds to wait for another part that is looking whether it can join them."""


class UnjoinedError(CacheError):
    """Parts that are not a whole cache yet."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The files of one worker."""

    place: HarvestPart
    tokens: int
    """Number of tokens wanted of all parts together."""
    manifest: Manifest

    def file(self, index: int) -> int:
        """The number, in the whole cache, of this part's file."""
        return self.place.number + index * self.place.count

    @property
    def rows(self) -> dict[int, int]:
        """Rows of this part's files, by their number in the whole cache."""
        return {self.file(index): shard.rows for index, shard in enumerate(self.manifest.shards)}


def folder_of(folder: Path, place: HarvestPart) -> Path:
    """Where a part keeps its files."""
    return folder / f"part-{place.number}-of-{place.count}"


def read_parts(folder: Path) -> list[Part]:
    """All parts that have stored something, in order."""
    places = [
        HarvestPart(int(found[1]), int(found[2]))
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (found := PART_FOLDER.fullmatch(path.name)) and (path / PART_NAME).is_file()
    ]
    return [_read_part(folder, place) for place in sorted(places)]


def _read_part(folder: Path, place: HarvestPart) -> Part:
    with named_damage(folder_of(folder, place) / PART_NAME) as record:
        tokens = record.pop("tokens")
        if not isinstance(tokens, int) or tokens < 1:
            raise ValueError(f"tokens={tokens!r} is no number of tokens")
        part = Part(place=place, tokens=tokens, manifest=manifest_from_record(record))
        for index, shard in enumerate(part.manifest.shards):
            if shard.file != shard_name(part.file(index)):
                raise ValueError(f"{shard.file!r} is not {shard_name(part.file(index))}")
            check_shard(shard, part.file(index) * part.manifest.layout.sequences_per_shard)
    return part


def write_part(folder: Path, part: Part) -> None:
    """Write the manifest of a part."""
    path = folder_of(folder, part.place) / PART_NAME
    write_record(path, {"tokens": part.tokens, **part.manifest.to_record()})


def joined_manifest(folder: Path) -> Manifest:
    """The manifest of a cache; if there are only parts of one, the error names those that are missing."""
    if not (folder / NAME).is_file() and (parts := read_parts(folder)):
        _whole_files(folder, parts)
        raise UnjoinedError(f"the parts in {folder} are complete but not joined; run one of them again")
    return read_manifest(folder)


def verify_part(folder: Path, place: HarvestPart) -> None:
    """Read every file of a part and compare it with its recorded checksum."""
    for shard in _read_part(folder, place).manifest.shards:
        check_content(folder_of(folder, place) / shard.file, shard)


def harvest_part(
    folder: Path,
    fresh: Part,
    open_stream: Callable[[], LiveStream],
    on_progress: Progress = no_progress,
) -> Part:
    """Store the files of a part that are missing; `fresh` says which part of which cache.

    Args:
        folder: Of the whole cache.
        fresh: The part without files.
        open_stream: Called only if something is missing.
        on_progress: Called as tokens of the part are stored.
    """
    others = _checked_others(folder, fresh)
    own = folder_of(folder, fresh.place)
    with only_writer(own, f"quadric harvest --shard {fresh.place}"):
        remove_leftovers(own, OWN_FILES)
        part = _part_to_continue(folder, fresh)
        known = {file: rows for each in others for file, rows in each.rows.items()}
        if not part.manifest.exhausted and is_needed(part, known):
            part = _fill(folder, part, known, open_stream(), on_progress)
        else:
            write_part(folder, part)  # also without files: it is not missing
    return part


def _checked_others(folder: Path, fresh: Part) -> list[Part]:
    """The other parts in the folder, which must be of the same cache."""
    parts = read_parts(folder)
    if not parts and (folder / NAME).is_file():
        raise CacheError(f"{folder} was harvested without --shard; leave --shard out, or give another folder")
    strange = [path.name for path in entries(folder) if not PART_FOLDER.fullmatch(path.name)]
    if not parts and strange:
        raise CacheError(f"{folder} holds other files ({strange[0]} …); give an empty or a new folder")
    check_same(folder, [*parts, fresh])
    return [each for each in parts if each.place != fresh.place]


def check_same(folder: Path, parts: Sequence[Part]) -> None:
    """Raise unless all parts are of the same cache."""
    first = parts[0]
    for each in parts[1:]:
        found = first.manifest.provenance.differences(each.manifest.provenance)
        found += differences(vars(first.manifest.layout), vars(each.manifest.layout))
        if each.place.count != first.place.count:
            found.append(f"parts: stored {first.place.count}, asked for {each.place.count}")
        if found:
            raise CacheError(
                f"parts {first.place} and {each.place} in {folder} do not belong together ({'; '.join(found)}); "
                "harvest all parts with the same settings, or give another folder"
            )


def _part_to_continue(folder: Path, fresh: Part) -> Part:
    if not (folder_of(folder, fresh.place) / PART_NAME).is_file():
        return fresh
    stored = _read_part(folder, fresh.place)
    for shard in stored.manifest.shards:
        check_size(folder_of(folder, fresh.place) / shard.file, shard)
    if fresh.tokens < stored.tokens:
        raise CacheError(
            f"part {fresh.place} in {folder} is of {stored.tokens} tokens, asked for {fresh.tokens}; "
            f"give --tokens {stored.tokens}, or another folder"
        )
    return replace(stored, tokens=fresh.tokens)


def is_needed(part: Part, known: Mapping[int, int]) -> bool:
    """Whether the files before this part's next one may hold fewer tokens than wanted.

    The rows of this part are known, and those of other parts as far as they were stored when it began. The unknown
    files are taken to hold as many as this part's own do on average, less three standard errors. Should that be too
    many, joining finds the gap, and running the part again fills it: by then the rows of all parts are known.
    """
    rows, file = {**known, **part.rows}, part.file(len(part.manifest.shards))
    certain = [rows[number] for number in range(file) if number in rows]
    return sum(certain) + pessimistic(list(part.rows.values()), file - len(certain)) < part.tokens


def pessimistic(rows: Sequence[int], unknown: int) -> float:
    """A cautious estimate of the rows of n unknown files from m known ones: n·mean - 3·s·√(n + n²/m)."""
    if unknown == 0 or not rows:
        return 0.0
    if len(rows) == 1:
        return unknown * rows[0] / 2  # one file says nothing about how files differ
    error = stdev(rows) * sqrt(unknown + unknown**2 / len(rows))
    return max(0.0, unknown * fmean(rows) - BAD_LUCK * error)


def _fill(folder: Path, part: Part, known: Mapping[int, int], stream: LiveStream, on_progress: Progress) -> Part:
    with closing(_files(stream, part, on_progress)) as files:
        for passes in files:
            path = folder_of(folder, part.place) / shard_name(part.file(len(part.manifest.shards)))
            held = sum(len(each.batch) for each in passes)
            # One more than there are, so that nothing is cut: where the cache ends is decided when parts are joined.
            shard = write_shard(path, passes, held + 1, part.manifest.layout)
            part = _with(part, shards=(*part.manifest.shards, shard))
            write_part(folder, part)
            if not is_needed(part, known):
                return part
    part = _with(part, exhausted=True, tail_tokens=stream.blocks.tail_tokens if stream.blocks else 0)
    write_part(folder, part)
    return part


def _with(part: Part, **changes: object) -> Part:
    return replace(part, manifest=replace(part.manifest, **changes))  # type: ignore[arg-type]


def _files(stream: LiveStream, part: Part, on_progress: Progress) -> Generator[list[ForwardPass]]:
    """The forward passes of this part, file by file, from the first one that is not stored."""
    layout, place = part.manifest.layout, part.place
    per_file = layout.sequences_per_shard // layout.sequences_per_forward
    start = part.file(len(part.manifest.shards)) * per_file
    passes = stream.passes(start=start, belongs=lambda index: index // per_file % place.count == place.number)
    waiting, rows, share = list[ForwardPass](), part.manifest.rows, -(-part.tokens // place.count)
    on_progress("harvest", min(rows, share), share, "tokens")
    for forward in prefetched(passes, stream.prefetch):
        waiting.append(forward)
        rows += len(forward.batch)
        on_progress("harvest", min(rows, share), share, "tokens")
        if len(waiting) == per_file:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def join(folder: Path) -> Manifest:
    """Write the manifest of the whole cache; raises UnjoinedError, naming them, while parts are missing."""
    with only_writer(folder, "quadric harvest, joining its parts", patience=JOIN_PATIENCE):
        remove_leftovers(folder, OWN_FILES)
        return _join(folder, read_parts(folder))


def _join(folder: Path, parts: Sequence[Part]) -> Manifest:
    files, last = _whole_files(folder, parts)
    shards, room = list[Shard](), max(each.tokens for each in parts)
    for number, (part, shard) in enumerate(files):
        source = folder_of(folder, part.place) / shard.file
        if shard.rows < room:
            check_size(source, shard)
            shards.append(replace(shard, file=f"{source.parent.name}/{shard.file}"))
        else:
            check_content(source, shard)  # the cut file gets a checksum of its own, which must not hide damage
            shards.append(cut_shard(source, folder / shard_name(number), shard, room, part.manifest.layout))
        room -= shard.rows
    manifest = replace(
        parts[0].manifest,
        shards=tuple(shards),
        exhausted=last is not None,
        tail_tokens=last.manifest.tail_tokens if last else 0,
    )
    write_manifest(folder, manifest)
    _remove_unlisted(folder, manifest)
    return manifest


class _WholeFiles(NamedTuple):
    """The files of the whole cache in order, each with its part."""

    files: list[tuple[Part, Shard]]
    last: Part | None
    """The part that found the end of the text, if there are fewer tokens than wanted."""


def _whole_files(folder: Path, parts: Sequence[Part]) -> _WholeFiles:
    check_same(folder, parts)
    n_parts, tokens = parts[0].place.count, max(each.tokens for each in parts)
    by_number = {each.place.number: each for each in parts}
    late = [number for number in range(n_parts) if number not in by_number or by_number[number].tokens < tokens]
    if late:
        raise UnjoinedError(_unjoined(folder, late, n_parts, tokens))
    files, rows = list[tuple[Part, Shard]](), 0
    for number in count():
        part, index = by_number[number % n_parts], number // n_parts
        if rows >= tokens:
            break
        if index == len(part.manifest.shards):
            if not part.manifest.exhausted:
                raise UnjoinedError(_unjoined(folder, [number % n_parts], n_parts, tokens))
            return _WholeFiles(files, part)  # no file of that number means none of a higher one
        files.append((part, part.manifest.shards[index]))
        rows += part.manifest.shards[index].rows
    return _WholeFiles(files, None)


def _unjoined(folder: Path, numbers: Sequence[int], n_parts: int, tokens: int) -> str:
    names = ", ".join(f"{number}/{n_parts}" for number in numbers)
    subject = f"part {names} is" if len(numbers) == 1 else f"parts {names} are"
    return (
        f"{subject} missing or unfinished in {folder}, which is to hold {tokens} tokens; run quadric harvest --tokens "
        f"{tokens} --shard {numbers[0]}/{n_parts} with the settings of the others"
    )


def _remove_unlisted(folder: Path, manifest: Manifest) -> None:
    """Delete last files of earlier, shorter caches."""
    listed = {shard.file for shard in manifest.shards}
    for path in folder.glob("shard-*.safetensors"):
        if path.name not in listed:
            path.unlink(missing_ok=True)
