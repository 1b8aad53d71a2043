"""Progress in tokens: a bar with speed and time left on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadric.activations.harvesting import Progress

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def token_progress(label: str) -> Iterator[Callable[["Progress"], None]]:
    """A function to call with every new state; written to stderr, so that stdout stays the answer's."""
    if not sys.stderr.isatty():
        yield PlainTokens(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, TextColumn("{task.fields[pace]}"), console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=None, pace="")
        clock = _Clock()

        def show(state: "Progress") -> None:
            bars.update(task, completed=state.done, total=state.wanted, pace=clock.pace(state))

        yield show


class PlainTokens:
    """A line every few seconds."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.last = time.monotonic()
        self.clock = _Clock()

    def __call__(self, state: "Progress") -> None:
        pace = self.clock.pace(state)
        if time.monotonic() - self.last < SECONDS_BETWEEN_LINES and state.done < state.wanted:
            return
        self.last = time.monotonic()
        print(f"{self.label}: {state.done:,} of {state.wanted:,} tokens, {pace}", file=sys.stderr)


class _Clock:
    """Starts at the first state it is shown, so that loading the model does not count as slowness."""

    def __init__(self) -> None:
        self.start: float | None = None

    def pace(self, state: "Progress") -> str:
        if self.start is None:
            self.start = time.monotonic()
        if not state.here:
            return "starting"
        speed = state.here / max(time.monotonic() - self.start, 1e-9)
        minutes, seconds = divmod(int((state.wanted - state.done) / speed), 60)
        return f"{speed:,.0f} tokens/s, {minutes}:{seconds:02d} left"
