"""Durable files: every file that Quadric writes is either complete on disk under its name, or absent.

A file is written under a temporary name in the same folder, flushed to disk and renamed; then the folder is synced, so
that the rename is on disk too. A crash or a power cut leaves the old file or the new one, never a part of either.
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
    """Size and hash of a written file, to check later that it is complete."""

    bytes: int
    sha256: str


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    write_pieces(path, [content])


def write_json(path: Path, values: object) -> None:
    """Write an indented JSON file atomically."""
    write_atomically(path, (json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
    """Write a file piece by piece, for content too large to hold in memory twice; returns its size and hash."""
    digest, size = hashlib.sha256(), 0
    with _temporary_file(path) as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
    return WrittenFile(size, digest.hexdigest())


@contextmanager
def _temporary_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that gets its final name once it is complete and on disk."""
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
            f"no room for {path.name} in {path.parent}; earlier files are still valid: free some space and run "
            "the same command again"
        ) from problem
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Delete temporary files that killed writers left, for file names that match the pattern `names`."""
    pattern = re.compile(rf"\.(?:{names})\.\d+")
    for path in folder.iterdir():
        if pattern.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Flush a file or a folder's entries to disk; a rename is durable only once its folder is flushed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_versioned_json(path: Path, format_name: str, version: int, what: str, remedy: str) -> dict[str, Any]:
    """Read a JSON object of the given format; a version newer than `version` is an error."""
    try:
        values = json.loads(path.read_bytes())
    except ValueError as problem:
        raise ValueError(f"{path} is not valid JSON ({problem}); {remedy}") from None
    if not isinstance(values, dict) or values.get("format") != format_name:
        raise ValueError(f"{path} does not describe {what} (no format: {format_name!r}); {remedy}")
    found = values.get("format_version")
    if not isinstance(found, int) or found > version:
        raise ValueError(
            f"{path} has format version {found!r}, newer than the {version} this Quadric reads; "
            "upgrade with pip install -U quadric"
        )
    return values
