"""Durable files: every file that Quadric writes is either complete on disk under its name, or absent.

A file is written under a temporary name in the same folder, flushed to disk and renamed; then the folder is synced, so
that the rename is on disk too. A crash or a power cut leaves the old file or the new one, never a part of either.
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
WINDOWS = os.name == "nt"
LARGEST_JSON = 1 << 30
"""Bytes; every JSON file that Quadric writes is far smaller."""
LONGEST_VALUE = 80
"""Characters of a value in an error message."""


class DiskFullError(OSError):
    """The disk has no room for a file."""


class NotWritableError(PermissionError):
    """A file or folder that may not be written."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.errno = number


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with name_disk_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_to_disk(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, values: object) -> None:
    """Write an indented JSON file atomically."""
    write_atomically(path, (json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


@contextmanager
def name_disk_errors(path: Path) -> Iterator[None]:
    """Name the path and a remedy if the disk is full or may not be written; the system's own message has neither."""
    try:
        yield
    except (DiskFullError, NotWritableError):
        raise
    except OSError as problem:
        number = problem.errno if problem.errno is not None else _number_in(problem)
        if number in FULL:
            raise DiskFullError(
                f"no room for {path.name} in {path.parent}; earlier files are still valid: free some space and run "
                "the same command again"
            ) from problem
        if number in NOT_WRITABLE:
            raise NotWritableError(
                f"{path} may not be written ({os.strerror(number)}); change its permissions, or give another folder",
                number,
            ) from problem
        raise


def _number_in(problem: OSError) -> int | None:
    """The number of the first error that `shutil.copytree` collected as text."""
    return next((number for number in (*FULL, *NOT_WRITABLE) if os.strerror(number) in str(problem)), None)


def remove_leftovers(folder: Path, names: str) -> None:
    """Delete temporary files that killed writers left, for file names that match the pattern `names`."""
    pattern = re.compile(rf"\.(?:{names})\.\d+")
    for path in folder.iterdir() if folder.is_dir() else ():
        if pattern.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Flush a file or a folder's entries to disk; a rename is durable only once its folder is flushed."""
    if WINDOWS and path.is_dir():  # which cannot be opened there, and whose entries the system journals
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_regular(path: Path, largest: int = LARGEST_JSON) -> bytes:
    """The content of a stored file, which must be a regular one of limited size.

    A reader waits for ever for a pipe that nobody writes to, and a device such as /dev/zero never ends.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file; replace it by a copy of the file that belongs there")
    if status.st_size > largest:
        raise ValueError(f"{path} has {status.st_size:,} bytes, more than the {largest:,} that are read")
    with path.open("rb") as file:
        return file.read(status.st_size)  # and no more, should it grow


def read_json(path: Path, remedy: str) -> Any:
    """Read a JSON file; whatever is wrong with it, the error is one line with the file and the remedy."""
    try:
        content = read_regular(path)
        values = json.loads(content)
        if b"\\u" in content:
            json.dumps(values, ensure_ascii=False).encode()  # raises for half of a surrogate pair, which is no text
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply for JSON of Quadric; {remedy}") from None
    except ValueError as problem:
        raise ValueError(f"{path} is not valid JSON ({problem}); {remedy}") from None
    return values


def read_versioned_json(
    path: Path, format_name: str, version: int, what: str, remedy: str, *, since: str | None = None
) -> dict[str, Any]:
    """Read a JSON object of the given format; a newer version is an error, and so is one older than `since`.

    `what` and `remedy` are for the error; `since` is the first Quadric that writes this version.
    """
    values = read_json(path, remedy)
    if not isinstance(values, dict) or values.get("format") != format_name:
        raise ValueError(f"{path} does not describe {what} (no format: {format_name!r}); {remedy}")
    stored = values.get("format_version")
    if not isinstance(stored, int) or isinstance(stored, bool) or stored < 1:
        raise ValueError(f"{path} has format version {shown(stored)}, which never existed; {remedy}")
    if stored > version:
        raise ValueError(
            f"{path} has format version {shown(stored)}, newer than the {version} this Quadric reads; "
            "upgrade with pip install -U quadric"
        )
    if since is not None and stored < version:
        raise ValueError(f"{path} has format version {stored}, written by a Quadric before {since}; {remedy}")
    return values


def is_plain_name(name: str) -> bool:
    """Whether a name that was read from a file stays in its folder: no separators, no "..", no NUL."""
    return name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name


def shown(value: object) -> str:
    """A value for an error message: its repr, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
