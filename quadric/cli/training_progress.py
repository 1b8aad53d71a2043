"""Progress of a training run: a live line (and a table, if there are several) on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadric.training import StepReport
    from quadric.training.checkpoints import Damaged

SECONDS_BETWEEN_LINES = 10.0
ROWS = 12


class TrainingProgress:
    """Hears of every step; the pace counts from the first one, so that loading the model is not slowness."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self.here = 0
        self.tokens = 0
        self.start: float | None = None

    def open(self, step: int, damaged: "list[Damaged]") -> None:
        """The run stands at a step; damaged checkpoints were passed over."""
        for each in damaged:
            print(f"passed over checkpoint {each.folder.name}: {each.reason}", file=sys.stderr)
        if step:
            print(f"going on after step {step} of {self.steps}", file=sys.stderr)
        self.done, self.start = step, time.monotonic()

    def step(self, step: int, reports: "dict[str, StepReport]") -> None:
        """A step is done."""
        self.done, self.here = step, self.here + 1
        self.tokens += next(iter(reports.values())).n_tokens
        self.show(reports)

    def show(self, reports: "dict[str, StepReport]") -> None:
        """Nothing: the progress of a process that is not the first of its job."""

    def pace(self) -> str:
        """Tokens a second and the time left, as they were since the run was opened here."""
        assert self.start is not None
        seconds = max(time.monotonic() - self.start, 1e-9)
        minutes, rest = divmod(int(seconds / self.here * (self.steps - self.done)), 60)
        return f"{self.tokens / seconds:,.0f} tokens/s  {minutes}:{rest:02d} left"


class PlainTraining(TrainingProgress):
    """A line every few seconds."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.last = time.monotonic() - SECONDS_BETWEEN_LINES  # the first step answers at once

    def show(self, reports: "dict[str, StepReport]") -> None:
        if time.monotonic() - self.last < SECONDS_BETWEEN_LINES and self.done < self.steps:
            return
        self.last = time.monotonic()
        error = ", ".join(f"{each.error:.3f}" for each in reports.values())
        density = ", ".join(f"{each.density:.3f}" for each in reports.values())
        print(f"step {self.done}/{self.steps}  error {error}  density {density}  {self.pace()}", file=sys.stderr)


class _Live(TrainingProgress):
    def __init__(self, steps: int, live: Any) -> None:
        super().__init__(steps)
        self.live = live

    def show(self, reports: "dict[str, StepReport]") -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=self.steps, completed=self.done, width=24)
        only = next(iter(reports.values()))
        measured = [] if len(reports) > 1 else [f"error {only.error:.3f}", f"density {only.density:.3f}"]
        line.add_row(bar, f"step {self.done}/{self.steps}", *measured, self.pace())
        if len(reports) == 1:
            self.live.update(line)
            return
        table = Table("autoencoder", "error", "density", box=None, padding=(0, 2))
        for name, each in list(reports.items())[:ROWS]:
            table.add_row(name, f"{each.error:.3f}", f"{each.density:.3f}")
        if len(reports) > ROWS:
            table.add_row(f"... and {len(reports) - ROWS} more (all in metrics.jsonl)", "", "")
        self.live.update(Group(table, line))


@contextmanager
def training_progress(steps: int, *, shown: bool = True) -> Iterator[TrainingProgress]:
    """What to call when the run is opened and after every step; writes to stderr."""
    if not shown:
        yield TrainingProgress(steps)
        return
    if not sys.stderr.isatty():
        yield PlainTraining(steps)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield _Live(steps, live)
