"""The live table of a sweep: what stands in it while cells wait, train and finish."""

import io

from rich.console import Console

from quadric.cli.sweep_progress import SHOWN, TableWatcher
from quadric.training import StepReport

ROW = {"cell": "b", "error": 0.25, "error_low": 0.2, "error_high": 0.3, "density": 0.4}


class Screen:
    """Keeps what a live display would show."""

    def update(self, shown: object) -> None:
        text = io.StringIO()
        Console(file=text, width=100).print(shown)
        self.text = text.getvalue()


def test_cells_wait_train_and_finish() -> None:
    screen = Screen()
    watcher = TableWatcher(screen)
    watcher.plan(["a", "b", "c"], [ROW])
    assert "1 of 3 cells finished" in screen.text
    assert screen.text.count("waiting") == 2
    watcher.train(["a"], 8)
    report = StepReport(step=2, error=0.75, density=0.5, alpha=0.3, mixing_density=None, n_tokens=64)
    watcher.step(3, {"a": report})
    assert "step 3" in screen.text
    assert "0.750" in screen.text
    assert "training 1 cells together: step 3 of 8" in screen.text
    watcher.measuring("errors", 32, 64)
    assert "held-out errors: 32 of 64 tokens" in screen.text
    watcher.row(ROW | {"cell": "a"})
    assert "2 of 3 cells finished" in screen.text
    assert screen.text.count("0.200–0.300") == 2


def test_a_long_sweep_shows_those_in_training_first() -> None:
    screen = Screen()
    watcher = TableWatcher(screen)
    watcher.plan([f"cell{number}" for number in range(SHOWN + 5)], [])
    assert "5 not shown" in screen.text
    watcher.train([f"cell{SHOWN + 4}"], 8)
    watcher.measuring("errors", 0, 1)
    assert f"cell{SHOWN + 4}" in screen.text
