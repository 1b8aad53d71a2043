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
    from quadric.train import StepReport
    from quadric.train.checkpoints import Damaged

SECONDS_BETWEEN_LINES = 5.0
TABLE_ROWS = 12

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
    """Reports the steps of a run; several autoencoders are shown as a table, with their last errors and densities."""

    def __init__(
        self, display: Display, steps: int, *, label: str = "training", with_table: bool | None = None
    ) -> None:
        self.display, self.steps, self.label = display, steps, label
        self.with_table = display.has_table if with_table is None else with_table
        self.tokens, self.start = 0, time.monotonic()

    def open(self, step: int, damaged: "Sequence[Damaged]") -> None:
        """The run is at a step; damaged checkpoints were skipped."""
        for each in damaged:
            say(f"skipped checkpoint {each.folder.name}: {each.reason}", file=sys.stderr)
        if step:
            say(f"continuing after step {step} of {self.steps}", file=sys.stderr)
        self.start = time.monotonic()
        self.display.report(self.label, step, self.steps, "steps")

    def step(self, step: int, reports: "Mapping[str, StepReport]") -> None:
        """A step is done."""
        self.tokens += next(iter(reports.values())).n_tokens
        speed = f"{self.tokens / max(time.monotonic() - self.start, 1e-9):,.0f} tokens/s"
        measured = "" if len(reports) > 1 and self.display.has_table else _measured(reports)
        if len(reports) > 1 and self.with_table:
            self.display.set_table(_training_table(reports))
        self.display.report(self.label, step, self.steps, f"steps, {measured}{speed}")


def _measured(reports: "Mapping[str, StepReport]") -> str:
    error = " ".join(f"{each.error:.3f}" for each in reports.values())
    density = " ".join(f"{each.density:.3f}" for each in reports.values())
    return f"error {error}, density {density}, "


def _training_table(reports: "Mapping[str, StepReport]") -> Any:
    from rich.table import Table

    table = Table("autoencoder", "error", "density", box=None, padding=(0, 2))
    for name, each in list(reports.items())[:TABLE_ROWS]:
        table.add_row(name, f"{each.error:.3f}", f"{each.density:.3f}")
    if len(reports) > TABLE_ROWS:
        table.add_row(f"... and {len(reports) - TABLE_ROWS} more (all in metrics.jsonl)", "", "")
    return table
