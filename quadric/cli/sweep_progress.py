"""Progress of a sweep: a live table of its cells on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quadric.activations.harvesting import Progress
from quadric.cli.counted_progress import PlainParts
from quadric.cli.token_progress import PlainTokens
from quadric.cli.training_progress import PlainTraining
from quadric.sweep import Watcher
from quadric.sweep.rows import Row
from quadric.training import StepReport
from quadric.training.checkpoints import Damaged

SHOWN = 24


@contextmanager
def sweep_progress() -> Iterator[Watcher]:
    """What to tell of a sweep's progress; writes to stderr."""
    if not sys.stderr.isatty():
        yield PlainWatcher()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield TableWatcher(live)


class PlainWatcher(Watcher):
    """Lines, each complete in itself."""

    def __init__(self) -> None:
        self.tokens, self.parts = PlainTokens("harvest"), PlainParts()

    def plan(self, cells: list[str], finished: list[Row]) -> None:
        print(f"sweep: {len(cells)} cells, {len(finished)} finished", file=sys.stderr)
        self.left = len(cells) - len(finished)

    def harvested(self, state: Progress) -> None:
        self.tokens(state)

    def measuring(self, part: str, done: int, wanted: int) -> None:
        self.parts(part, done, wanted)

    def train(self, cells: list[str], steps: int) -> None:
        print(f"training {len(cells)} cells together, {self.left} left", file=sys.stderr)
        self.training = PlainTraining(steps)

    def opened(self, step: int, damaged: list[Damaged]) -> None:
        self.training.open(step, damaged)

    def step(self, step: int, reports: dict[str, StepReport]) -> None:
        self.training.step(step, reports)

    def row(self, row: Row) -> None:
        self.left -= 1
        print(f"{row['cell']}: held-out {_measured(row)}; {self.left} left", file=sys.stderr)


def _measured(row: Row) -> str:
    return f"error {row['error']:.3f} ({row['error_low']:.3f}–{row['error_high']:.3f}), density {row['density']:.3f}"


class TableWatcher(Watcher):
    """A row a cell: waiting, its last batch, or what was measured on held-out text."""

    def __init__(self, live: Any) -> None:
        self.live = live
        self.cells: dict[str, tuple[str, ...]] = {}
        self.line = ""

    def plan(self, cells: list[str], finished: list[Row]) -> None:
        self.cells = dict.fromkeys(cells, ("waiting", "", "", ""))
        for row in finished:
            self._finish(row)
        self._show("")

    def harvested(self, state: Progress) -> None:
        self._show(f"storing activations: {state.done:,} of {state.wanted:,} tokens")

    def train(self, cells: list[str], steps: int) -> None:
        self.steps = steps
        for name in cells:
            self.cells[name] = ("training", "", "", "")

    def step(self, step: int, reports: dict[str, StepReport]) -> None:
        for name, each in reports.items():
            self.cells[name] = (f"step {step}", f"{each.error:.3f}", "last batch", f"{each.density:.3f}")
        self._show(f"training {len(reports)} cells together: step {step} of {self.steps}")

    def measuring(self, part: str, done: int, wanted: int) -> None:
        self._show(f"held-out {part}: {done:,} of {wanted:,} tokens")

    def row(self, row: Row) -> None:
        self._finish(row)
        self._show("")

    def _finish(self, row: Row) -> None:
        interval = f"{row['error_low']:.3f}–{row['error_high']:.3f}"
        self.cells[row["cell"]] = ("finished", f"{row['error']:.3f}", interval, f"{row['density']:.3f}")

    def _show(self, line: str) -> None:
        """Those in training first, then the finished ones, as many as a screen takes."""
        from rich.console import Group
        from rich.table import Table

        ranks = {"finished": 1, "waiting": 2}
        order = sorted(self.cells.items(), key=lambda item: ranks.get(item[1][0], 0))
        table = Table("cell", "", "error", "95 %", "density", box=None, padding=(0, 2))
        for name, columns in order[:SHOWN]:
            table.add_row(name, *columns)
        done = sum(columns[0] == "finished" for columns in self.cells.values())
        more = f"; {len(order) - SHOWN} not shown" if len(order) > SHOWN else ""
        self.live.update(Group(table, f"{done} of {len(self.cells)} cells finished{more}  {line}"))
