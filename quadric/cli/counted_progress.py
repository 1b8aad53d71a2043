"""Progress over latents or other steps of known number: a live bar on a terminal, a few plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def counted_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number that was finished since the last call."""
    if not sys.stderr.isatty():
        yield _plain(label, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda finished: progress.advance(task, finished)


@contextmanager
def part_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with a part's name, how much of it is done, and of how much."""
    if not sys.stderr.isatty():
        yield PlainParts()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(part: str, done: int, wanted: int) -> None:
            if part not in tasks:
                tasks[part] = progress.add_task(part)
            progress.update(tasks[part], completed=done, total=wanted)

        yield show


class PlainParts:
    """A line every few seconds, and one at the end of each part."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, part: str, done: int, wanted: int) -> None:
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES or done == wanted:
            self.last = time.monotonic()
            print(f"{part} {done:,}/{wanted:,}", file=sys.stderr)


def _plain(label: str, total: int) -> Callable[[int], None]:
    done, last = 0, time.monotonic()

    def advance(finished: int) -> None:
        nonlocal done, last
        done += finished
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{label} {done}/{total}", file=sys.stderr)

    return advance
