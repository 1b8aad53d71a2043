"""Progress in tokens: a bar with speed and time left on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadric.activations.harvest import Progress

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def token_progress(label: str) -> Iterator[Callable[["Progress"], None]]:
    """A function to call with every new state; written to stderr, so that stdout stays the answer's."""
    if not sys.stderr.isatty():
        yield _PlainLines(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, TextColumn("{task.fields[pace]}"), console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=None, pace="")
        start = time.monotonic()

        def show(state: "Progress") -> None:
            pace = _pace(state, time.monotonic() - start)
            bars.update(task, completed=state.done, total=state.wanted, pace=pace)

        yield show


class _PlainLines:
    def __init__(self, label: str) -> None:
        self.label = label
        self.start = self.last = time.monotonic()

    def __call__(self, state: "Progress") -> None:
        now = time.monotonic()
        if now - self.last < SECONDS_BETWEEN_LINES and state.done < state.wanted:
            return
        self.last = now
        pace = _pace(state, now - self.start)
        print(f"{self.label}: {state.done:,} of {state.wanted:,} tokens, {pace}", file=sys.stderr)


def _pace(state: "Progress", seconds: float) -> str:
    speed = state.here / max(seconds, 1e-9)
    left = int((state.wanted - state.done) / max(speed, 1e-9))
    minutes, rest = divmod(left, 60)
    return f"{speed:,.0f} tokens/s, {minutes}:{rest:02d} left"
