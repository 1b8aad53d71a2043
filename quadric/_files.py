"""Durable files: every file Quadric writes is on disk whole under its name, or not there at all.

A file is written beside its final name, flushed to disk and renamed, and the rename itself is flushed by syncing the
folder. A crash or a power cut leaves the old file or the new one, never a part of either.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple


class DiskFullError(OSError):
    """The disk has no room for a file."""


class WrittenFile(NamedTuple):
    """The size and hash of a file that was written, for checking that it is whole."""

    bytes: int
    sha256: str


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    write_pieces(path, [content])


def write_json(path: Path, values: object) -> None:
    """Write a JSON file that people can read, atomically."""
    write_atomically(path, (json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
    """Write a file piece by piece, for content too large to hold twice; returns its size and hash."""
    digest, size = hashlib.sha256(), 0
    with _beside(path) as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
    return WrittenFile(size, digest.hexdigest())


@contextmanager
def _beside(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its final name once it is whole and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_to_disk(path.parent)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFullError(
            f"no room for {path.name} in {path.parent}; what was written before stays valid: free some space and run "
            "the same command again"
        ) from problem
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Delete what killed writers left behind of files whose names match the pattern `names`, and nothing else."""
    pattern = re.compile(rf"\.(?:{names})\.\d+")
    for path in folder.iterdir():
        if pattern.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk; a rename is durable only once its folder is flushed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of_file(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_versioned_json(path: Path, format_name: str, version: int, what: str, remedy: str) -> dict[str, Any]:
    """Read a JSON object that names its format, and refuse a newer version than `version`."""
    try:
        values = json.loads(path.read_bytes())
    except ValueError as problem:
        raise ValueError(f"{path} is not valid JSON ({problem}); {remedy}") from None
    if not isinstance(values, dict) or values.get("format") != format_name:
        raise ValueError(f"{path} does not describe {what} (no format: {format_name!r})")
    found = values.get("format_version")
    if not isinstance(found, int) or found > version:
        raise ValueError(
            f"{path} has format version {found!r}, newer than the {version} this Quadric reads; "
            "upgrade with pip install -U quadric"
        )
    return values
