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
