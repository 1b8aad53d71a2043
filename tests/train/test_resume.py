"""A resumed run ends with the same bits as a run that was never interrupted, whatever ended it."""

import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from quadric.train.checkpoints import newest_checkpoint
from quadric.train.loop import resume
from tests import fresh_process
from tests.train import job

pytestmark = pytest.mark.slow

NAMES = ("sparse", "own", "topk")
"""The second is trained with terms of a user's own, on tokens and on weights."""
JOB = fresh_process.module("tests.train.job")


def run(folder: Path, *arguments: object) -> fresh_process.Finished:
    return fresh_process.run(JOB, folder, "--dictionaries", *NAMES, *arguments)


def final_state(folder: Path) -> list[list[bytes]]:
    learners = job.learners(*NAMES)
    assert resume(folder, learners, job.Shard()) == []
    assert learners[0].step_index == job.STEPS
    return [job.fingerprint(each) for each in learners]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The folder and the final state of a run that nothing interrupted."""
    # In a fresh process, as the interrupted runs are: equal bits are promised to equal processes, and the test process
    # may have imported libraries with threads of their own.
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert run(folder).returncode == 0
    return folder, final_state(folder)


def test_kills_at_random_steps_change_no_bit(tmp_path, uninterrupted):
    """Twelve kills: at a random later step, or half-way through writing the next checkpoint."""
    generator = random.Random(7)
    step = 0
    for number in range(12):
        way = "--kill-while-saving" if number % 3 == 2 else "--kill-at"
        killed = run(tmp_path, way, min(step + generator.randint(1, 7), job.STEPS - 1))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        checkpoint, damaged = newest_checkpoint(tmp_path)
        assert not damaged
        step = checkpoint.step if checkpoint else 0
    assert run(tmp_path).returncode == 0
    assert final_state(tmp_path) == uninterrupted[1]


def test_kills_from_outside_change_no_bit(tmp_path, uninterrupted):
    """Killed at an arbitrary moment after a few steps, which the process itself does not choose."""
    generator = random.Random(8)
    for _ in range(4):
        process = fresh_process.start(JOB, tmp_path, "--dictionaries", *NAMES, "--slow", 0.05)
        steps = generator.randint(1, 6)
        while process.is_running() and process.written().count("\n") < steps:
            time.sleep(0.001)
        process.signal(signal.SIGKILL)
        assert process.wait().returncode == -signal.SIGKILL
    assert run(tmp_path).returncode == 0
    assert final_state(tmp_path) == uninterrupted[1]


@pytest.mark.parametrize(("way", "code"), [("--interrupt-at", 130), ("--terminate-at", 143)])
def test_ctrl_c_and_sigterm_save_after_the_current_step_and_name_it(tmp_path, uninterrupted, way, code):
    step = 6
    assert step % job.TRAINING.checkpoint_every != 0, "no checkpoint is due at this step"
    interrupted = run(tmp_path, way, step)
    assert interrupted.returncode == code
    assert interrupted.stderr == f"stopped after step {step} of {job.STEPS}\n"
    assert interrupted.stdout.splitlines()[-1].startswith(f"{step} "), "no step follows the interrupt"
    checkpoint, damaged = newest_checkpoint(tmp_path)
    assert (checkpoint.step, damaged) == (step, [])
    assert run(tmp_path).returncode == 0
    assert final_state(tmp_path) == uninterrupted[1]


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "state"])
def test_a_damaged_newest_checkpoint_is_skipped_and_named(tmp_path, uninterrupted, damage):
    folder = shutil.copytree(uninterrupted[0], tmp_path / "damaged")
    newest = folder / f"step-{job.STEPS:08d}"
    weights = next(newest.glob("*.safetensors"))
    blob = weights.read_bytes()
    if damage == "flip":
        weights.write_bytes(blob[:-9] + bytes([blob[-9] ^ 4]) + blob[-8:])
    elif damage == "truncate":
        weights.write_bytes(blob[:-9])
    elif damage == "delete":
        weights.unlink()
    else:
        (newest / "state.json").write_text("{")
    learners, stream = job.learners(*NAMES), job.Shard()
    (skipped,) = resume(folder, learners, stream)
    assert skipped.folder == newest
    assert skipped.reason
    assert learners[0].step_index == job.STEPS - 4
    resumed = run(folder)
    assert resumed.returncode == 0
    assert f"passed over {newest.name}: " in resumed.stderr
    assert final_state(folder) == uninterrupted[1]
