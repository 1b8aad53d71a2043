"""SIGKILL and SIGTERM before random file operations of every stage: the next call ends with the undisturbed bytes."""

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import fresh_process
from tests.faults.stages import NEEDS_RUN, STAGES, Places, result

DOOMED = fresh_process.module("tests.faults.doomed_stage")
KILLS = 4
"""Per stage; with QUADRIC_ALL_KILLS=1 in the environment, one before every operation, which takes half an hour."""


def run(stage: str, places: Places, number: int = 0, at: int = 0) -> fresh_process.Finished:
    return fresh_process.run(DOOMED, stage, number, at, *places)


def prepared(stage: str, places: Places) -> Places:
    """The folder that the stage begins with."""
    if stage in NEEDS_RUN:
        left_out = ("evidence", "geometry", "site") if stage == "evidence and site" else ("site",)
        shutil.copytree(places.whole / "run", places.out, ignore=shutil.ignore_patterns(*left_out))
    return places


def deaths(stage: str, operations: int) -> list[tuple[signal.Signals, int]]:
    """Signals, and the operations before which they arrive."""
    if os.environ.get("QUADRIC_ALL_KILLS"):
        return [(number, at) for at in range(1, operations + 1) for number in (signal.SIGKILL, signal.SIGTERM)]
    generator = random.Random(stage)
    numbers = [signal.SIGKILL] * KILLS + [signal.SIGTERM]
    return [(number, generator.randint(1, operations)) for number in numbers]


def final(folder: Path) -> dict[str, str]:
    return final_files(result(folder))


def final_files(files: dict[str, str]) -> dict[str, str]:
    """Without older checkpoints: SIGTERM saves one at whatever step it finds, so others are left at the end."""
    checkpoints = sorted({Path(name).parts[1] for name in files if name.startswith("checkpoints/")})
    older = tuple(f"checkpoints/{name}/" for name in checkpoints[:-1])
    assert len(checkpoints) <= 2
    return {name: digest for name, digest in files.items() if not name.startswith(older or "/")}


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_stage_ends_as_if_it_had_not_been(
    stage: str, world: Path, whole: Path, static: Path, tmp_path: Path, count: Callable[[], None]
) -> None:
    # Every attempt has the same folder, whose name is stored in some files.
    places = Places(world, whole, static, tmp_path / "out")
    finished = run(stage, prepared(stage, places))
    assert finished.returncode == 0, finished.stderr
    operations = int(finished.stdout.split()[-1])
    expected = result(places.out)
    for number, at in deaths(stage, operations):
        count()
        shutil.rmtree(places.out)
        killed = run(stage, prepared(stage, places), number, at)
        assert "Traceback" not in killed.stderr, killed.stderr
        if number == signal.SIGKILL:
            assert killed.returncode == -signal.SIGKILL, f"not killed at {at} of {operations}"
        else:
            assert killed.returncode in (0, 143), killed.stderr  # 0 where the signal came after the last step
        again = run(stage, places)
        assert again.returncode == 0, f"killed at {at} of {operations}: {again.stderr}"
        assert final(places.out) == final_files(expected), f"killed at {at} of {operations}"
