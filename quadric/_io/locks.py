"""One writer per folder at a time.

A writer holds a lock (`filelock`) on a small file in the folder. The system releases it when the process ends, however
it ends, so a lock is never stale. What the file says about its owner is only for the error message. On a network file
system Linux passes the lock to the server, so writers on other machines are seen as well.

In a torchrun job only the first process writes, so only that one takes the lock.
"""

import errno
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from quadric._io.files import name_disk_errors

LOCK = ".quadric-lock"
LONGEST_OWNER = 200
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class BusyError(OSError):
    """Another process is writing to the folder."""


@contextmanager
def only_writer(folder: Path, work: str, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it is missing; raise BusyError if another process holds it.

    A thread that already holds the lock may take it again: the demo holds its run while it trains it. A folder that was
    created here and is still empty in the end is removed, so that failed work leaves nothing. `work` is shown to a
    process that finds the folder locked; `patience` is how many seconds to wait for another holder.
    """
    made = _make(folder)
    lock = _lock(folder)
    try:
        _acquire(lock, folder, patience)
        try:
            if lock.lock_counter == 1:
                with name_disk_errors(Path(lock.lock_file)):
                    owner = f"{work}, process {os.getpid()} on {socket.gethostname()}"
                    Path(lock.lock_file).write_text(owner, encoding="utf-8")
            yield
        finally:
            if lock.lock_counter <= 1:
                with suppress(OSError):  # Windows keeps a file that is open
                    os.unlink(lock.lock_file)  # before the lock is released, so that nobody else's is deleted
            lock.release()
    finally:
        _remove_empty(made)


def writer_of(folder: Path) -> str | None:
    """Who is writing to the folder now; None if nobody is."""
    lock = _lock(folder)
    if not os.path.isfile(lock.lock_file):
        return None
    try:
        with lock:
            return _owner(folder) if lock.lock_counter > 1 else None  # more than 1: this thread holds it
    except Timeout:
        return _owner(folder)
    except OSError:
        return None


def entries(folder: Path) -> list[Path]:
    """What a folder holds apart from a lock; nothing if there is no such folder."""
    return sorted(path for path in folder.iterdir() if path.name != LOCK) if folder.is_dir() else []


def _make(folder: Path) -> list[Path]:
    """Create a folder and its parents; returns those that were missing, innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with name_disk_errors(folder):
        Path(os.path.realpath(folder)).mkdir(parents=True, exist_ok=True)  # a link may point to a folder yet to be made
    return missing


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):  # it holds something, or another process was faster
        for folder in folders:
            folder.rmdir()


def _lock(folder: Path) -> BaseFileLock:
    """The lock of a folder: one object per folder in this process, which counts how often each thread holds it."""
    path = os.path.join(os.path.realpath(folder), LOCK)
    return FileLock(path, timeout=0, is_singleton=True, fallback_to_soft=False)


def _acquire(lock: BaseFileLock, folder: Path, patience: float) -> None:
    try:
        with name_disk_errors(folder / LOCK):
            lock.acquire(timeout=patience)
    except Timeout:
        raise BusyError(
            f"'{folder}' is being written by {_owner(folder)}; wait for it to end, or give another folder"
        ) from None
    except OSError as problem:
        if problem.errno not in _WITHOUT_LOCKS:
            raise
        warnings.warn(
            f"the file system of '{folder}' has no locks; make sure that only one process writes there", stacklevel=2
        )


def _owner(folder: Path) -> str:
    try:
        with (folder / LOCK).open("rb") as file:
            return file.read(LONGEST_OWNER).decode(errors="replace") or "another process"
    except OSError:  # it ended just now
        return "another process"
