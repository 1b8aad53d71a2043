"""Progress of slow work: one kind of callback for everything that reports it, and the bars that show it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quadric._io.terminal import safe_console

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Progress = Callable[[str, int, int, str], None]
"""Called with what is being done, how much of it, of how much, and words: what is counted, then what was measured."""


def no_progress(what: str, done: int, total: int, words: str) -> None:
    """Show nothing."""


def part_of(progress: Progress, what: str, start: int, total: int) -> Progress:
    """What a part of some work reports to: its amounts count on from `start`, of the total of the whole work."""
    return lambda _, done, of_part, words: progress(what, start + done, total, words)


class Display:
    """Takes reports of progress; this one shows nothing, e.g. in all processes of a job but the first."""

    has_table = False

    def __init__(self) -> None:
        self.paces: dict[str, Pace] = {}

    def report(self, what: str, done: int, total: int, words: str = "") -> None:
        """So much of a piece of work is done. The first report starts its clock; less than before is new work."""
        pace = self.paces.get(what)
        if pace is None or done < pace.last:
            pace = self.paces[what] = Pace(done)
        self.show(what, done, total, words, pace.words(done, total, of_tokens=words.startswith("tokens")))

    def show(self, what: str, done: int, total: int, words: str, pace: str) -> None:
        """Show a report, with speed and time left."""

    def set_table(self, table: Any) -> None:
        """Show a table above the bars, where there are bars."""


class Pace:
    """Speed and time left since the first report, so that loading a model does not count as slowness."""

    def __init__(self, done: int) -> None:
        self.first = self.last = done
        self.start = time.monotonic()

    def words(self, done: int, total: int, *, of_tokens: bool) -> str:
        """Speed and time left; nothing before any work was done here, since earlier work has an unknown speed."""
        self.last = done
        if done <= self.first:
            return ""
        seconds = max(time.monotonic() - self.start, 1e-9)
        minutes, rest = divmod(int(seconds / (done - self.first) * (total - done)), 60)
        speed = f"{(done - self.first) / seconds:,.0f} tokens/s, " if of_tokens else ""
        return f"{speed}{minutes}:{rest:02d} left"


class LiveDisplay(Display):
    """One bar per piece of work."""

    has_table = True

    def __init__(self, open_bars: "RichProgress", parts: Sequence[str] = ()) -> None:
        super().__init__()
        self.bars = open_bars
        self.tasks: dict[str, TaskID] = {part: open_bars.add_task(part, total=None, words="") for part in parts}

    def show(self, what: str, done: int, total: int, words: str, pace: str) -> None:
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, words="")
        self.bars.update(self.tasks[what], completed=done, total=total, words=", ".join(filter(None, [words, pace])))

    def set_table(self, table: Any) -> None:
        self.bars.table = table  # type: ignore[attr-defined]
        self.bars.refresh()


@contextmanager
def live_display(parts: Sequence[str] = ()) -> Iterator[LiveDisplay]:
    """Bars on stderr with room for a table above them; they disappear when the work is done."""
    from rich.console import RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    class Bars(RichProgress):
        table: RenderableType | None = None

        def get_renderables(self) -> Iterator[RenderableType]:
            if self.table is not None:
                yield self.table
            yield self.make_tasks_table(self.tasks)

    description, words = (TextColumn(field, markup=False) for field in ("{task.description}", "{task.fields[words]}"))
    columns = (description, BarColumn(), MofNCompleteColumn(), words)
    with Bars(*columns, console=safe_console(stderr=True), transient=True) as bars:
        yield LiveDisplay(bars, parts)


@contextmanager
def progress_bar(*, shown: bool = True) -> Iterator[Progress]:
    """What a function of the library reports to: bars in terminals and notebooks, nothing elsewhere.

    Nothing is shown if stderr is redirected to a file, so that logs stay readable.
    """
    console = safe_console(stderr=True)
    if not shown or not (console.is_terminal or console.is_jupyter):
        yield no_progress
        return
    with live_display() as display:
        yield display.report
