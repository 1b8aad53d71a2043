"""Two processes on one folder: the second is refused in one line, and the first ends with the undisturbed bytes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import fresh_process
from tests.faults.stages import Places, result

HELD = """
import sys
from pathlib import Path
from quadric.train import loop
from tests.faults.stages import Places, train

*places, gate = sys.argv[1:]
step_all = loop._step_all

def step(*arguments):
    if arguments[0][0].step_index == 3:
        print("held", flush=True)
        while not Path(gate).exists():
            pass
    return step_all(*arguments)

loop._step_all = step
sys.exit(train(Places(*map(Path, places))))
"""
TRAIN = """
import sys
from pathlib import Path
from tests.faults.stages import Places, train
sys.exit(train(Places(*map(Path, sys.argv[1:]))))
"""
KILL_HOLDER = 9


def start(code: str, places: Places, *more: object) -> fresh_process.Process:
    return fresh_process.start(code, *places, *more)


def held(process: fresh_process.Process) -> None:
    while "held" not in process.written():
        assert process.is_running(), process.wait().stderr
        time.sleep(0.01)


@pytest.fixture
def places(world: Path, whole: Path, static: Path, tmp_path: Path) -> Places:
    return Places(world, whole, static, tmp_path / "run")


def test_a_run_that_still_trains_is_not_resumed(places: Places, tmp_path: Path, count: Callable[[], None]) -> None:
    alone = start(TRAIN, places).wait()
    assert alone.returncode == 0, alone.stderr
    expected = result(places.out)
    places.out.rename(tmp_path / "alone")
    first = start(HELD, places, tmp_path / "gate")
    held(first)
    for _ in range(2):
        count()
        second = start(TRAIN, places).wait()
        assert second.returncode == 1
        (line,) = [line for line in second.stderr.splitlines() if line.startswith("quadric: ")]
        assert f"is being written by quadric train, process {first.pid} on" in line
        assert "Traceback" not in second.stderr
    (tmp_path / "gate").touch()
    finished = first.wait()
    assert finished.returncode == 0, finished.stderr
    assert result(places.out) == expected


def test_a_killed_holder_holds_nothing(places: Places, tmp_path: Path, count: Callable[[], None]) -> None:
    first = start(HELD, places, tmp_path / "gate")
    held(first)
    first.signal(KILL_HOLDER)
    assert first.wait().returncode == -KILL_HOLDER
    count()
    second = start(TRAIN, places).wait()
    assert second.returncode == 0, second.stderr
    assert "continuing after step 2 of 6" in second.stderr
