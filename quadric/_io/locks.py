"""One writer per folder at a time.

A writer holds an flock on a small file in the folder. The kernel releases it when the process ends, however it ends, so
a lock is never stale: there is no process id to compare (ids are reused, in containers at once), no clock and no boot
id. What the file says about its owner is only for the error message. On a network file system Linux passes the lock to
the server, so writers on other machines are seen as well.

In a torchrun job only the first process writes, so only that one takes the lock.
"""

import errno
import fcntl
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quadric._io.files import name_disk_errors

LOCK = ".quadric-lock"
LONGEST_OWNER = 200
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

_held: dict[str, int] = {}
"""Folders that this process has locked, each with the thread that holds it."""


class BusyError(OSError):
    """Another process is writing to the folder."""


@contextmanager
def only_writer(folder: Path, work: str) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it is missing; raise BusyError if another process holds it.

    A thread that already holds the lock may take it again: the demo holds its run while it trains it. A folder that was
    created here and is still empty in the end is removed, so that failed work leaves nothing.

    Args:
        folder: The folder to write to.
        work: What is being done, e.g. "quadric train"; shown to a process that finds the folder locked.
    """
    key = os.path.realpath(folder)
    if _held.get(key) == threading.get_ident():
        yield
        return
    made = _make(folder)
    try:
        descriptor = _locked_file(folder, work)
        _held[key] = threading.get_ident()
        try:
            yield
        finally:
            del _held[key]
            (folder / LOCK).unlink(missing_ok=True)  # before the lock is released, so that nobody else's is deleted
            os.close(descriptor)
    finally:
        _remove_empty(made)


def writer_of(folder: Path) -> str | None:
    """Who is writing to the folder now; None if nobody is."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def entries(folder: Path) -> list[Path]:
    """What a folder holds apart from a lock; nothing if there is no such folder."""
    return sorted(path for path in folder.iterdir() if path.name != LOCK) if folder.is_dir() else []


def _make(folder: Path) -> list[Path]:
    """Create a folder and its parents; returns those that were missing, innermost first."""
    missing = []
    for path in (folder, *folder.parents):
        if path.exists():
            break
        missing.append(path)
    with name_disk_errors(folder):
        Path(os.path.realpath(folder)).mkdir(parents=True, exist_ok=True)  # a link may point to a folder yet to be made
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # it holds something, or another process was faster
            return


def _locked_file(folder: Path, work: str) -> int:
    """The descriptor of the folder's lock file, locked."""
    path = folder / LOCK
    while True:
        with name_disk_errors(path):
            # NOFOLLOW: the owner is written into the file, so it must not be a link to another one.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            _flock(descriptor, folder)
            if _is_at(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{work}, process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its former owner deleted the file after it was opened here


def _flock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"'{folder}' is being written by {_owner(descriptor)}; wait for it to end, or give another folder"
        ) from None
    except OSError as problem:
        if problem.errno not in _WITHOUT_LOCKS:
            raise
        warnings.warn(
            f"the file system of '{folder}' has no locks; make sure that only one process writes there", stacklevel=2
        )


def _owner(descriptor: int) -> str:
    return os.pread(descriptor, LONGEST_OWNER, 0).decode(errors="replace") or "another process"


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at the path."""
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
