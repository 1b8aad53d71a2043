"""Arrays in safetensors files: written whole or not at all, read by memory mapping, checked by size and hash."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from quadric._io.files import is_plain_name, read_json, sha256_of_file, write_atomically
from quadric._io.own_files import RECORD, own_files, record_files
from quadric._io.records import record_from_json

Array = np.ndarray


class ReadArrays(NamedTuple):
    """The arrays of a file by name, and its metadata."""

    arrays: dict[str, Array]
    metadata: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """The file that holds some arrays, and how to check that it is complete."""

    file: str
    bytes: int
    sha256: str


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays, so that a reader sees the old file or the new, never a part."""
    write_atomically(path, _content(arrays, metadata))


def _content(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    # safetensors reads memory in order, whatever the strides. Its own `save_file` makes files that only their owner may
    # read, and raises no OSError if the disk is full.
    in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return save(in_order, dict(metadata) if metadata else None)


def read_arrays(path: Path) -> ReadArrays:
    """Read the arrays of a file; their bytes are loaded from disk on first access."""
    try:
        # With framework="np" every array would be copied into memory. A path that is not UTF-8 is refused.
        with path.open("rb") as opened:
            readable = f"/dev/fd/{opened.fileno()}" if re.search("[\ud800-\udfff]", str(path)) else path
            stored = safe_open(readable, framework="pt")
        with stored as file:
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118, not a mapping
            return ReadArrays(arrays, file.metadata() or {})
    except (SafetensorError, ValueError, TypeError, KeyError, OSError) as problem:
        raise ValueError(f"{path} is damaged ({problem}); delete it and write it again") from None


@contextmanager
def replaced_arrays(
    folder: Path, description: str, format_name: str
) -> Iterator[Callable[[str, Mapping[str, Array]], dict[str, Any]]]:
    """Write arrays anew into a folder whose JSON file `description` names them; it is written last, in the block.

    Yields a function that writes arrays under a name that contains their hash, and returns the fields of a `StoredFile`
    for the description. The files of before are deleted when the block ends; any that are not ours stay.
    """
    former, written = own_files(folder) | _described_files(folder / description, format_name), {description}
    if description not in former and os.path.lexists(folder / description):
        raise FileExistsError(f"'{folder / description}' was not made by Quadric; move it, or name another folder")

    def store(name: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
        content = _content(arrays)
        sha256 = hashlib.sha256(content).hexdigest()
        stored = StoredFile(file=f"{name}-{sha256[:12]}.safetensors", bytes=len(content), sha256=sha256)
        written.add(stored.file)
        record_files(folder, (former | written) - {RECORD})
        write_atomically(folder / stored.file, content)
        return asdict(stored)

    yield store
    for file in former - written - {RECORD}:
        (folder / file).unlink(missing_ok=True)
    record_files(folder, written)


def _described_files(path: Path, format_name: str) -> set[str]:
    """A description and the files that it names: what is ours in a folder that an earlier Quadric wrote."""
    with suppress(OSError, ValueError):
        values = read_json(path, "")
        if isinstance(values, dict) and values.get("format") == format_name:
            named = [part.get("file") for part in values.values() if isinstance(part, dict)]
            return {path.name, *(file for file in named if isinstance(file, str) and is_plain_name(file))}
    return set()


def load_stored(folder: Path, values: object, record: Path, remedy: str) -> dict[str, Array]:
    """The arrays of a stored file, if it is exactly the one that `values` in the file `record` describe."""
    stored = record_from_json(StoredFile, values, f"a file in {record}")
    path = folder / stored.file
    if not is_plain_name(stored.file) or not path.is_file():
        raise FileNotFoundError(f"'{stored.file}' named by {record} is missing; {remedy}")
    if path.stat().st_size != stored.bytes:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, expected {stored.bytes}; {remedy}")
    if sha256_of_file(path) != stored.sha256:
        raise ValueError(f"{path} is damaged: its sha256 is not the recorded one; {remedy}")
    return read_arrays(path).arrays


def sha256_of_arrays(arrays: Mapping[str, Array], *more: str) -> str:
    """Hash of the names, types, shapes and values of arrays, and of some text; independent of their order."""
    digest = hashlib.sha256(json.dumps(more).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
