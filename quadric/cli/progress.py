"""Progress of slow work on stderr: live bars on a terminal, plain lines elsewhere.

One display is open at a time. Work inside other work (evidence inside a site, training inside a sweep) reports to the
display that is already open, because two live displays would overwrite each other.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quadric._io.progress import Display, live_display
from quadric.cli.output import say

if TYPE_CHECKING:
    from quadric.train import Learner
    from quadric.train.checkpoints import Damaged

SECONDS_BETWEEN_LINES = 5.0
TABLE_ROWS = 12
CELL_ROWS = 24
REPORTED = ("error", "density")
"""Terms of the loss that progress shows, where a dictionary has them; all are in metrics.jsonl."""

_open: list[Display] = []


@contextmanager
def progress(parts: Sequence[str] = ()) -> Iterator[Display]:
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
def _new_display(parts: Sequence[str]) -> Iterator[Display]:
    if not sys.stderr.isatty():
        yield PlainDisplay()
        return
    with live_display(parts) as display:
        yield display


class PlainDisplay(Display):
    """A line every few seconds, and one at the end; quick work is silent unless it says what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.last = time.monotonic()
        self.begun: set[str] = set()

    def show(self, what: str, done: int, total: int, words: str, pace: str) -> None:
        due = time.monotonic() - self.last >= SECONDS_BETWEEN_LINES
        finished = done >= total and (what in self.begun or bool(words))
        if (due and pace) or finished:
            self.last = time.monotonic()
            (self.begun.discard if done >= total else self.begun.add)(what)
            amount = f"{done:,} of {total:,} {words}".rstrip()
            say(", ".join(filter(None, [f"{what}: {amount}", pace])), file=sys.stderr)


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
        self.display.report(self.label, step, self.steps, "steps")

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
        self.display.report(self.label, learner.step_index, self.steps, f"steps, {measured}{speed}")


class SweepProgress:
    """Progress of a sweep: a live table of its cells on a terminal, plain lines elsewhere.

    It has the methods of `quadric.studies.sweep.Watcher`, which help pages cannot wait for.
    """

    def __init__(self, display: Display) -> None:
        self.display = display
        self.cells: dict[str, tuple[str, ...]] = {}
        """State, error, interval and density by cell."""

    def plan(self, cells: list[str], finished: list[dict[str, Any]]) -> None:
        self.cells = dict.fromkeys(cells, ("waiting", "", "", ""))
        for row in finished:
            self._finish(row)
        self._show(f"sweep: {len(cells)} cells, {len(finished)} finished")

    def progress(self, what: str, done: int, total: int, words: str) -> None:
        self.display.report(what, done, total, words)

    def train(self, cells: list[str], steps: int) -> None:
        label = f"training {len(cells)} cells together"
        self.training = TrainingProgress(self.display, steps, len(cells), label=label, with_table=False)
        self.cells |= dict.fromkeys(cells, ("training", "", "", ""))
        self._show(f"{label}, {self._left} left")

    def opened(self, step: int, damaged: "Sequence[Damaged]") -> None:
        self.training.open(step, damaged)

    def step(self, learner: "Learner") -> None:
        self.training(learner)
        error, density = reported(learner.report)
        self.cells[learner.name] = (f"step {learner.step_index}", error, "last batch", density)
        if not self.training.reports:
            self._show()

    def row(self, row: dict[str, Any]) -> None:
        self._finish(row)
        _, error, interval, density = self.cells[row["cell"]]
        self._show(f"{row['cell']}: held-out error {error} ({interval}), density {density}; {self._left} left")

    @property
    def _left(self) -> int:
        return sum(state != "finished" for state, *_ in self.cells.values())

    def _finish(self, row: dict[str, Any]) -> None:
        interval = f"{row['error_low']:.3f}–{row['error_high']:.3f}"
        self.cells[row["cell"]] = ("finished", f"{row['error']:.3f}", interval, f"{row['density']:.3f}")

    def _show(self, line: str = "") -> None:
        """The table, of as many cells as fit a screen, those in training first; or the line where there is none."""
        if not self.display.has_table:
            if line:
                say(line, file=sys.stderr)
            return
        from rich.console import Group
        from rich.table import Table

        ranks = {"finished": 1, "waiting": 2}
        order = sorted(self.cells.items(), key=lambda cell: ranks.get(cell[1][0], 0))
        table = Table("cell", "", "error", "95 %", "density", box=None, padding=(0, 2))
        for name, columns in order[:CELL_ROWS]:
            table.add_row(name, *columns)
        more = f"; {len(order) - CELL_ROWS} not shown" if len(order) > CELL_ROWS else ""
        n_finished = len(order) - self._left
        self.display.set_table(Group(table, f"{n_finished} of {len(order)} cells finished{more}"))


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
