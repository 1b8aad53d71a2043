"""The live table of a sweep: what it shows while cells wait, train and finish."""

import io

from rich.console import Console

from quadric import Atomic
from quadric.cli.progress import Display
from quadric.cli.sweep_table import SHOWN, LineWatcher, TableWatcher, sweep_watcher
from quadric.train import Learner

ROW = {"cell": "b", "error": 0.25, "error_low": 0.2, "error_high": 0.3, "density": 0.4}


class Screen(Display):
    """Keeps what a live display would show."""

    has_table = True

    def __init__(self) -> None:
        super().__init__()
        self.text, self.line = "", ""

    def set_table(self, table: object) -> None:
        text = io.StringIO()
        Console(file=text, width=100).print(table)
        self.text = text.getvalue()

    def show(self, what: str, done: int, total: int, words: str, pace: str) -> None:
        self.line = f"{what}: {done} of {total}"


def test_cells_wait_train_and_finish() -> None:
    screen = Screen()
    watcher = sweep_watcher(screen)
    watcher.plan(["a", "b", "c"], [ROW])
    assert "1 of 3 cells finished" in screen.text
    assert screen.text.count("waiting") == 2
    watcher.train(["a"], 8)
    watcher.opened(0, [])
    learner = Learner(Atomic(n_latents=4).build(2), name="a")
    learner.step_index, learner.report = 3, {"error": 0.75, "density": 0.5, "tokens": 64}
    watcher.step(learner)
    assert "step 3" in screen.text
    assert "0.750" in screen.text
    assert screen.line == "training 1 cells together: 3 of 8"
    watcher.progress("errors", 32, 64, "")
    assert screen.line == "errors: 32 of 64"
    watcher.row(ROW | {"cell": "a"})
    assert "2 of 3 cells finished" in screen.text
    assert screen.text.count("0.200–0.300") == 2


def test_a_long_sweep_shows_those_in_training_first() -> None:
    screen = Screen()
    watcher = TableWatcher(screen)
    watcher.plan([f"cell{number}" for number in range(SHOWN + 5)], [])
    assert "5 not shown" in screen.text
    watcher.train([f"cell{SHOWN + 4}"], 8)
    assert f"cell{SHOWN + 4}" in screen.text


def test_without_a_terminal_there_are_lines() -> None:
    assert isinstance(sweep_watcher(Display()), LineWatcher)
