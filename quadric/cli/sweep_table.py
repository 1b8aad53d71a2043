"""Progress of a sweep: a live table of its cells on a terminal, plain lines elsewhere."""

import sys

from quadric.cli.output import say
from quadric.cli.progress import Display, TrainingProgress, reported
from quadric.studies.sweep import Watcher
from quadric.studies.sweep.rows import Row
from quadric.train import Learner
from quadric.train.checkpoints import Damaged

SHOWN = 24


def sweep_watcher(display: Display) -> Watcher:
    """What a sweep reports to."""
    return TableWatcher(display) if display.has_table else LineWatcher(display)


class DisplayWatcher(Watcher):
    """What tables and lines have in common: harvest, training and evaluation report to the display."""

    def __init__(self, display: Display) -> None:
        self.display = display

    def progress(self, what: str, done: int, total: int, words: str) -> None:
        self.display.report(what, done, total, words)

    def train(self, cells: list[str], steps: int) -> None:
        label = f"training {len(cells)} cells together"
        self.training = TrainingProgress(self.display, steps, len(cells), label=label, with_table=False)

    def opened(self, step: int, damaged: list[Damaged]) -> None:
        self.training.open(step, damaged)

    def step(self, learner: Learner) -> None:
        self.training(learner)


class LineWatcher(DisplayWatcher):
    """Lines, each complete in itself."""

    left = 0

    def plan(self, cells: list[str], finished: list[Row]) -> None:
        say(f"sweep: {len(cells)} cells, {len(finished)} finished", file=sys.stderr)
        self.left = len(cells) - len(finished)

    def train(self, cells: list[str], steps: int) -> None:
        say(f"training {len(cells)} cells together, {self.left} left", file=sys.stderr)
        super().train(cells, steps)

    def row(self, row: Row) -> None:
        self.left -= 1
        say(
            f"{row['cell']}: held-out error {row['error']:.3f} ({row['error_low']:.3f}–{row['error_high']:.3f}), "
            f"density {row['density']:.3f}; {self.left} left",
            file=sys.stderr,
        )


class TableWatcher(DisplayWatcher):
    """One row per cell: waiting, its last batch, or what was measured on held-out text."""

    def __init__(self, display: Display) -> None:
        super().__init__(display)
        self.cells: dict[str, tuple[str, ...]] = {}

    def plan(self, cells: list[str], finished: list[Row]) -> None:
        self.cells = dict.fromkeys(cells, ("waiting", "", "", ""))
        for row in finished:
            self._finish(row)
        self._show()

    def train(self, cells: list[str], steps: int) -> None:
        super().train(cells, steps)
        for name in cells:
            self.cells[name] = ("training", "", "", "")
        self._show()

    def step(self, learner: Learner) -> None:
        super().step(learner)
        error, density = reported(learner.report)
        self.cells[learner.name] = (f"step {learner.step_index}", error, "last batch", density)
        if not self.training.reports:
            self._show()

    def row(self, row: Row) -> None:
        self._finish(row)
        self._show()

    def _finish(self, row: Row) -> None:
        interval = f"{row['error_low']:.3f}–{row['error_high']:.3f}"
        self.cells[row["cell"]] = ("finished", f"{row['error']:.3f}", interval, f"{row['density']:.3f}")

    def _show(self) -> None:
        """Cells in training first, then the finished ones, as many as fit a screen."""
        from rich.console import Group
        from rich.table import Table

        ranks = {"finished": 1, "waiting": 2}
        order = sorted(self.cells.items(), key=lambda item: ranks.get(item[1][0], 0))
        table = Table("cell", "", "error", "95 %", "density", box=None, padding=(0, 2))
        for name, columns in order[:SHOWN]:
            table.add_row(name, *columns)
        done = sum(columns[0] == "finished" for columns in self.cells.values())
        more = f"; {len(order) - SHOWN} not shown" if len(order) > SHOWN else ""
        self.display.set_table(Group(table, f"{done} of {len(self.cells)} cells finished{more}"))
