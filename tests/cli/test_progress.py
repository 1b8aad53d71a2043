"""Progress: live bars on a terminal, plain lines elsewhere, one display at a time."""

import inspect
import io
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from quadric import Atomic
from quadric._io.progress import LiveDisplay
from quadric.cli import progress as module
from quadric.cli.progress import CELL_ROWS, Display, PlainDisplay, SweepProgress, TrainingProgress, progress
from quadric.studies.sweep import Watcher
from quadric.train import Learner
from tests.cli.terminal import run_on_a_terminal


def become_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Not a fixture, since pytest puts its own stderr in place between fixtures and test."""
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "120")
    return stream


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress sees; tests set its only entry."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_quick_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as display:
        display.report("spectra", 0, 10)
        display.report("spectra", 10, 10)
    assert capsys.readouterr().err == ""


def test_slow_work_is_counted_in_plain_lines_with_the_time_left(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress() as display:
        display.report("spectra", 0, 10)
        clock[0] = 60.0
        display.report("spectra", 4, 10)
        clock[0] = 61.0
        display.report("spectra", 5, 10)
        clock[0] = 150.0
        display.report("spectra", 10, 10)
    assert capsys.readouterr().err.splitlines() == ["spectra: 4 of 10, 1:30 left", "spectra: 10 of 10, 0:00 left"]


def test_tokens_have_a_speed_and_what_was_there_before_does_not_count(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress() as display:
        clock[0] = 30.0  # loading the model is not slowness
        display.report("harvest", 100, 1000, "tokens")
        clock[0] = 40.0
        display.report("harvest", 200, 1000, "tokens")
        clock[0] = 130.0
        display.report("harvest", 1000, 1000, "tokens")
    assert capsys.readouterr().err.splitlines() == [
        "harvest: 200 of 1,000 tokens, 10 tokens/s, 1:20 left",
        "harvest: 1,000 of 1,000 tokens, 9 tokens/s, 0:00 left",
    ]


def test_new_work_under_an_old_name_has_its_own_clock(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress() as display:
        for start in (0.0, 1000.0):
            clock[0] = start
            display.report("errors", 0, 4)
            clock[0] = start + 10.0
            display.report("errors", 1, 4)
            display.report("errors", 4, 4)
    assert capsys.readouterr().err.splitlines() == ["errors: 1 of 4, 0:30 left", "errors: 4 of 4, 0:00 left"] * 2


def test_plain_lines_do_not_flood(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as display:
        for done in range(1000):
            display.report("harvest", done, 1001, "tokens")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = become_terminal(monkeypatch)
    with progress() as display:
        display.report("harvest", 0, 1000, "tokens")
        time.sleep(0.01)
        display.report("harvest", 500, 1000, "tokens")
    assert "500/1000" in terminal.getvalue()
    assert "tokens/s" in terminal.getvalue()


def test_work_inside_work_reports_to_the_display_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = become_terminal(monkeypatch)
    with progress(["geometry"]) as outer:
        assert isinstance(outer, LiveDisplay)
        with progress() as inner:
            assert inner is outer
            inner.report("evidence", 1, 2)
        outer.report("geometry", 3, 4)
    assert "evidence" in terminal.getvalue()
    assert "geometry" in terminal.getvalue()
    with progress() as after:
        assert after is not outer


def test_a_display_is_closed_when_its_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), progress() as failed:
        raise ValueError("broken")
    with progress() as display:
        assert isinstance(display, PlainDisplay)
        assert display is not failed


def done(training: TrainingProgress, step: int, errors: dict[str, float]) -> None:
    """A step of several dictionaries is done."""
    for name, error in errors.items():
        report = {"error": error, "density": 0.5, "tokens": 64}
        assert training(SimpleNamespace(name=name, step_index=step, report=report)) is None


def test_training_shows_error_density_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress() as display:
        training = TrainingProgress(display, steps=4, learners=2)
        training.open(1, [])
        clock[0] = 10.0
        done(training, 2, {"a": 0.75, "b": 0.25})
    assert capsys.readouterr().err.splitlines() == [
        "continuing after step 1 of 4",
        "training: 2 of 4 steps, error 0.750 0.250, density 0.500 0.500, 6 tokens/s, 0:20 left",
    ]


def test_several_autoencoders_are_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = become_terminal(monkeypatch)
    with progress() as display:
        errors = {f"cell{number}": number / 100 for number in range(module.TABLE_ROWS + 3)}
        training = TrainingProgress(display, steps=4, learners=len(errors))
        training.open(0, [])
        done(training, 1, errors)
    assert "cell11" in terminal.getvalue()
    assert "cell12" not in terminal.getvalue()
    assert "... and 3 more" in terminal.getvalue()


def test_a_dictionary_without_error_and_density_is_shown_by_its_speed(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress() as display:
        training = TrainingProgress(display, steps=2, learners=1)
        training.open(0, [])
        clock[0] = 8.0
        training(SimpleNamespace(name="own", step_index=1, report={"loud": 3.0, "tokens": 64}))
    assert capsys.readouterr().err.splitlines() == ["training: 1 of 2 steps, 8 tokens/s, 0:08 left"]


NESTED = """
import time
from types import SimpleNamespace
from quadric.cli.progress import TrainingProgress, progress
with progress(["geometry"]) as display:
    with progress() as inner:
        for done in range(0, 1001, 100):
            inner.report("evidence first", done, 1000, "tokens"); time.sleep(0.02)
    print("a note on stdout")
    training = TrainingProgress(display, 3, 2)
    training.open(0, [])
    for step in (1, 2, 3):
        for name in "ab":
            report = {"error": 0.5, "density": 0.5, "tokens": 64}
            training(SimpleNamespace(name=name, step_index=step, report=report))
        time.sleep(0.2)
    for done in range(10):
        display.report("geometry", done + 1, 10)
print("finished")
"""


@pytest.mark.slow
def test_nested_work_on_a_real_terminal() -> None:
    code, shown = run_on_a_terminal(NESTED)
    assert code == 0, shown
    assert "Traceback" not in shown
    for words in ("evidence first", "tokens/s", "a note on stdout", "training", "geometry", "finished"):
        assert words in shown


def test_the_display_needs_no_torch() -> None:
    script = "import sys, quadric.cli.progress; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


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
    watcher = SweepProgress(screen)
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
    watcher = SweepProgress(screen)
    watcher.plan([f"cell{number}" for number in range(CELL_ROWS + 5)], [])
    assert "5 not shown" in screen.text
    watcher.train([f"cell{CELL_ROWS + 4}"], 8)
    assert f"cell{CELL_ROWS + 4}" in screen.text


def test_a_sweep_without_a_terminal_prints_lines(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = SweepProgress(Display())
    watcher.plan(["a", "b"], [ROW])
    watcher.train(["a"], 8)
    watcher.row(ROW | {"cell": "a"})
    assert capsys.readouterr().err.splitlines() == [
        "sweep: 2 cells, 1 finished",
        "training 1 cells together, 1 left",
        "a: held-out error 0.250 (0.200–0.300), density 0.400; 0 left",
    ]


def test_a_sweep_tells_its_progress_all_that_it_tells_a_watcher() -> None:
    methods = inspect.getmembers(Watcher, inspect.isfunction)
    for name, method in methods:
        assert (
            inspect.signature(method).parameters.keys()
            == inspect.signature(getattr(SweepProgress, name)).parameters.keys()
        )
