"""Progress of slow work on stderr: live bars on a terminal, plain lines elsewhere.

One display is open at a time. Work inside other work (evidence inside a site, training inside a sweep) reports to the
display that is already open, because two live displays would overwrite each other.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from quadric.cli.output import say

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 5.0
TABLE_ROWS = 12

_open: "list[Display]" = []


# The shapes of what the library reports. Its own types are not imported: reports on weights, which show progress too,
# must not depend on language-model code.
@runtime_checkable
class TokenState(Protocol):
    """How many tokens are done, and of how many."""

    @property
    def done(self) -> int: ...
    @property
    def wanted(self) -> int: ...


@runtime_checkable
class Measured(Protocol):
    """What a training step measured."""

    @property
    def error(self) -> float: ...
    @property
    def density(self) -> float: ...
    @property
    def n_tokens(self) -> int: ...


@runtime_checkable
class Skipped(Protocol):
    """A damaged checkpoint."""

    @property
    def folder(self) -> Path: ...
    @property
    def reason(self) -> str: ...


@contextmanager
def progress(parts: Sequence[str] = ()) -> "Iterator[Display]":
    """The open display, or a new one; bars of parts that are known in advance are shown at once."""
    if _open:
        yield _open[-1]
        return
    with _new_display(parts) as display:
        _open.append(display)
        try:
            yield display
        finally:
            _open.remove(display)


@contextmanager
def _new_display(parts: Sequence[str]) -> "Iterator[Display]":
    if not sys.stderr.isatty():
        yield PlainDisplay()
        return
    with bars() as open_bars:
        yield LiveDisplay(open_bars, parts)


class Display:
    """Takes reports of progress; this one shows nothing, e.g. in all processes of a job but the first."""

    has_table = False

    def __init__(self) -> None:
        self.paces: dict[str, Pace] = {}

    def report(self, label: str, done: int, total: int, *, unit: str = "", words: str = "") -> None:
        """So much of a piece of work is done. The first report starts its clock; less than before is new work."""
        pace = self.paces.get(label)
        if pace is None or done < pace.last:
            pace = self.paces[label] = Pace(done)
        self.show(label, done, total, unit, ", ".join(filter(None, [words, pace.words(done, total, unit)])))

    def show(self, label: str, done: int, total: int, unit: str, words: str) -> None:
        """Show a report."""

    def set_table(self, table: Any) -> None:
        """Show a table above the bars, where there are bars."""

    def counted(self, label: str, total: int) -> Callable[[int], None]:
        """A function to call with the number that was finished since the last call."""
        done = 0
        self.report(label, 0, total)

        def advance(finished: int) -> None:
            nonlocal done
            done += finished
            self.report(label, done, total)

        return advance

    @contextmanager
    def tokens(self, label: str) -> Iterator[Callable[[TokenState], None]]:
        """A function to call with the state of a harvest or of a pass over tokens."""
        yield lambda state: self.report(label, state.done, state.wanted, unit="tokens")


class Pace:
    """Speed and time left since the first report, so that loading a model does not count as slowness."""

    def __init__(self, done: int) -> None:
        self.first = self.last = done
        self.start = time.monotonic()

    def words(self, done: int, total: int, unit: str) -> str:
        """Speed and time left; nothing before any work was done here, since earlier work has an unknown speed."""
        self.last = done
        if done <= self.first:
            return ""
        seconds = max(time.monotonic() - self.start, 1e-9)
        minutes, rest = divmod(int(seconds / (done - self.first) * (total - done)), 60)
        speed = f"{(done - self.first) / seconds:,.0f} tokens/s, " if unit == "tokens" else ""
        return f"{speed}{minutes}:{rest:02d} left"


class PlainDisplay(Display):
    """A line every few seconds, and one at the end of work that had any; quick work is silent unless it has a unit."""

    def __init__(self) -> None:
        super().__init__()
        self.last = time.monotonic()
        self.begun: set[str] = set()

    def show(self, label: str, done: int, total: int, unit: str, words: str) -> None:
        due = time.monotonic() - self.last >= SECONDS_BETWEEN_LINES
        finished = done >= total and (label in self.begun or bool(unit))
        if (due and words) or finished:
            self.last = time.monotonic()
            (self.begun.discard if done >= total else self.begun.add)(label)
            amount = f"{done:,} of {total:,} {unit}".rstrip()
            say(", ".join(filter(None, [f"{label}: {amount}", words])), file=sys.stderr)


@contextmanager
def bars() -> "Iterator[RichProgress]":
    """Bars with room for a table above them; they disappear when the work is done."""
    from rich.console import RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from quadric._io.terminal import safe_console

    class Bars(Progress):
        table: RenderableType | None = None

        def get_renderables(self) -> "Iterator[RenderableType]":
            if self.table is not None:
                yield self.table
            yield self.make_tasks_table(self.tasks)

    description, words = (TextColumn(field, markup=False) for field in ("{task.description}", "{task.fields[words]}"))
    columns = (description, BarColumn(), MofNCompleteColumn(), words)
    with Bars(*columns, console=safe_console(stderr=True), transient=True) as made:
        yield made


class LiveDisplay(Display):
    """One bar per piece of work."""

    has_table = True

    def __init__(self, open_bars: "RichProgress", parts: Sequence[str] = ()) -> None:
        super().__init__()
        self.bars = open_bars
        self.tasks: dict[str, TaskID] = {part: open_bars.add_task(part, total=None, words="") for part in parts}

    def show(self, label: str, done: int, total: int, unit: str, words: str) -> None:
        if label not in self.tasks:
            self.tasks[label] = self.bars.add_task(label, words="")
        self.bars.update(self.tasks[label], completed=done, total=total, words=words)

    def set_table(self, table: Any) -> None:
        self.bars.table = table  # type: ignore[attr-defined]
        self.bars.refresh()


class TrainingProgress:
    """Reports the steps of a run; several autoencoders are shown as a table, with their last errors and densities."""

    def __init__(
        self, display: Display, steps: int, *, label: str = "training", with_table: bool | None = None
    ) -> None:
        self.display, self.steps, self.label = display, steps, label
        self.with_table = display.has_table if with_table is None else with_table
        self.tokens, self.start = 0, time.monotonic()

    def open(self, step: int, damaged: Sequence[Skipped]) -> None:
        """The run is at a step; damaged checkpoints were skipped."""
        for each in damaged:
            say(f"skipped checkpoint {each.folder.name}: {each.reason}", file=sys.stderr)
        if step:
            say(f"continuing after step {step} of {self.steps}", file=sys.stderr)
        self.start = time.monotonic()
        self.display.report(self.label, step, self.steps, unit="steps")

    def step(self, step: int, reports: Mapping[str, Measured]) -> None:
        """A step is done."""
        self.tokens += next(iter(reports.values())).n_tokens
        speed = f"{self.tokens / max(time.monotonic() - self.start, 1e-9):,.0f} tokens/s"
        measured = "" if len(reports) > 1 and self.display.has_table else _measured(reports)
        if len(reports) > 1 and self.with_table:
            self.display.set_table(_training_table(reports))
        self.display.report(self.label, step, self.steps, unit="steps", words=measured + speed)


def _measured(reports: Mapping[str, Measured]) -> str:
    error = " ".join(f"{each.error:.3f}" for each in reports.values())
    density = " ".join(f"{each.density:.3f}" for each in reports.values())
    return f"error {error}, density {density}, "


def _training_table(reports: Mapping[str, Measured]) -> Any:
    from rich.table import Table

    table = Table("autoencoder", "error", "density", box=None, padding=(0, 2))
    for name, each in list(reports.items())[:TABLE_ROWS]:
        table.add_row(name, f"{each.error:.3f}", f"{each.density:.3f}")
    if len(reports) > TABLE_ROWS:
        table.add_row(f"... and {len(reports) - TABLE_ROWS} more (all in metrics.jsonl)", "", "")
    return table
