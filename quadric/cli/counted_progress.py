"""Progress over latents or other steps of known number: a live bar on a terminal, a few plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def counted_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number that was finished since the last call."""
    with part_progress() as show:
        done = 0

        def advance(finished: int) -> None:
            nonlocal done
            done += finished
            show(label, done, total)

        yield advance


@contextmanager
def part_progress(parts: Sequence[str] = ()) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with a part's name, how much of it is done, and of how much; known parts are shown at once."""
    if not sys.stderr.isatty():
        yield PlainParts()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {part: progress.add_task(part, total=None) for part in parts}

        def show(part: str, done: int, wanted: int) -> None:
            if part not in tasks:
                tasks[part] = progress.add_task(part)
            progress.update(tasks[part], completed=done, total=wanted)

        yield show


class PlainParts:
    """A line now and then, and one at the end of a part that had any; quick work is silent."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.begun: set[str] = set()

    def __call__(self, part: str, done: int, wanted: int) -> None:
        due = time.monotonic() - self.last >= SECONDS_BETWEEN_LINES
        if due or (part in self.begun and done == wanted):
            self.last = time.monotonic()
            self.begun.add(part)
            print(f"{part} {done:,}/{wanted:,}", file=sys.stderr)
