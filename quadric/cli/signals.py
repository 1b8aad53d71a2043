"""SIGTERM ends a command as Ctrl-C does: work is saved, temporary files are removed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was asked to end."""

    signal = signal.SIGTERM


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block when the process receives SIGTERM; training saves its state first."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, which is the only one that may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
