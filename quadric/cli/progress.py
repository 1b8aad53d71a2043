"""Progress of slow work on stderr: live bars on a terminal, plain lines elsewhere.

One display is open at a time. Work inside other work (evidence inside a site, training inside a sweep) reports to the
display that is already open, because two live displays would overwrite each other.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quadric.cli.output import say

# Only types: reports on weights, which show progress too, must not depend on language-model code.
if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from quadric.data.harvesting import Progress
    from quadric.train import Learner
    from quadric.train.checkpoints import Damaged

SECONDS_BETWEEN_LINES = 5.0
TABLE_ROWS = 12
REPORTED = ("error", "density")
"""Terms of the loss that progress shows, where a dictionary has them; all are in metrics.jsonl."""

_open: "list[Display]" = []


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
    def tokens(self, label: str) -> Iterator[Callable[["Progress"], None]]:
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
    """A callback of training that shows the steps; several dictionaries as a table, with their last errors and
    densities."""

    def __init__(
        self, display: Display, steps: int, learners: int, *, label: str = "training", with_table: bool | None = None
    ) -> None:
        self.display, self.steps, self.learners, self.label = display, steps, learners, label
        self.with_table = display.has_table if with_table is None else with_table
        self.reports: dict[str, Mapping[str, float]] = {}
        """The reports of the current step by dictionary; none once all of them have done it."""
        self.tokens, self.start = 0.0, time.monotonic()

    def open(self, step: int, damaged: "Sequence[Damaged]") -> None:
        """The run is at a step; damaged checkpoints were skipped."""
        for each in damaged:
            say(f"skipped checkpoint {each.folder.name}: {each.reason}", file=sys.stderr)
        if step:
            say(f"continuing after step {step} of {self.steps}", file=sys.stderr)
        self.start = time.monotonic()
        self.display.report(self.label, step, self.steps, unit="steps")

    def __call__(self, learner: "Learner") -> None:
        """A step of one dictionary is done; the step is shown once it is done for all of them."""
        self.reports[learner.name] = learner.report
        if len(self.reports) < self.learners:
            return
        reports, self.reports = self.reports, {}
        self.tokens += learner.report["tokens"]
        speed = f"{self.tokens / max(time.monotonic() - self.start, 1e-9):,.0f} tokens/s"
        measured = "" if len(reports) > 1 and self.display.has_table else _measured(reports)
        if len(reports) > 1 and self.with_table:
            self.display.set_table(_training_table(reports))
        self.display.report(self.label, learner.step_index, self.steps, unit="steps", words=measured + speed)


def reported(report: Mapping[str, float]) -> list[str]:
    """The shown terms of a report; nothing for those that it lacks."""
    return [f"{report[name]:.3f}" if name in report else "" for name in REPORTED]


def _measured(reports: Mapping[str, Mapping[str, float]]) -> str:
    columns = zip(*map(reported, reports.values()), strict=True)
    words = {name: " ".join(filter(None, column)) for name, column in zip(REPORTED, columns, strict=True)}
    return "".join(f"{name} {values}, " for name, values in words.items() if values)


def _training_table(reports: Mapping[str, Mapping[str, float]]) -> Any:
    from rich.table import Table

    table = Table("autoencoder", *REPORTED, box=None, padding=(0, 2))
    for name, report in list(reports.items())[:TABLE_ROWS]:
        table.add_row(name, *reported(report))
    if len(reports) > TABLE_ROWS:
        table.add_row(f"... and {len(reports) - TABLE_ROWS} more (all in metrics.jsonl)", "", "")
    return table
