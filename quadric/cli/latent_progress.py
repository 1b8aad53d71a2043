"""Progress over latents or other steps of known number: a live bar on a terminal, a few plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def latent_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
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


def _plain(label: str, total: int) -> Callable[[int], None]:
    done, last = 0, time.monotonic()

    def advance(finished: int) -> None:
        nonlocal done, last
        done += finished
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{label} {done}/{total}", file=sys.stderr)

    return advance
