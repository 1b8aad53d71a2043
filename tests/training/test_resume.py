"""However a run is ended, resuming it gives the bits of a run that was never interrupted."""

import multiprocessing
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadric.training.checkpoints import newest_checkpoint
from quadric.training.loop import resume, train
from tests.training import job

NAMES = ("sparse", "topk")


def command(folder: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.training.job", str(folder), *map(str, arguments)]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *arguments), capture_output=True, text=True, check=False)


def forked(folder: Path, *arguments: object) -> int:
    """The exit code of a job forked from a server that has torch loaded: a fresh process without the wait."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.training.job"])
    process = context.Process(target=job.main, args=([str(folder), *map(str, arguments)],))
    process.start()
    process.join()
    return process.exitcode


def final_state(folder: Path) -> list[list[bytes]]:
    learners = job.learners(*NAMES)
    assert resume(folder, learners, job.Shard()) == []
    assert learners[0].next_step == job.STEPS
    return [job.fingerprint(each) for each in learners]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    # In a process of its own, as the interrupted ones are: bits are promised to equal processes, not to one in which
    # other tests have loaded who knows which libraries of threads.
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert forked(folder) == 0
    return final_state(folder)


def test_kills_at_random_steps_cost_no_bit(tmp_path, uninterrupted):
    """Twelve kills: at a random later step, or half-way through writing the next checkpoint."""
    generator = random.Random(7)
    step = kills = 0
    while kills < 12:
        way = "--kill-while-saving" if kills % 3 == 2 else "--kill-at"
        assert forked(tmp_path, way, min(step + generator.randint(1, 7), job.STEPS - 1)) == -signal.SIGKILL
        kills += 1
        checkpoint, damaged = newest_checkpoint(tmp_path)
        assert not damaged
        step = checkpoint.step if checkpoint else 0
    assert forked(tmp_path) == 0
    assert final_state(tmp_path) == uninterrupted


def test_a_kill_from_outside_at_any_moment_costs_no_bit(tmp_path, uninterrupted):
    generator = random.Random(8)
    for _ in range(2):
        process = subprocess.Popen(command(tmp_path, "--slow", 0.03), stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(generator.uniform(0.05, 0.4))
        process.kill()
        process.communicate()
    assert run(tmp_path).returncode == 0
    assert final_state(tmp_path) == uninterrupted


def test_ctrl_c_saves_at_once_and_says_where(tmp_path, uninterrupted):
    process = subprocess.Popen(
        command(tmp_path, "--slow", 0.05), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while int(process.stdout.readline().split()[0]) < 6:
        pass
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    checkpoint, _ = newest_checkpoint(tmp_path)
    assert checkpoint.step % job.TRAINING.checkpoint_every != 0 or checkpoint.step < job.STEPS
    assert f"stopped after step {checkpoint.step} of 40" in errors
    assert "Traceback" not in errors
    assert run(tmp_path).returncode == 0
    assert final_state(tmp_path) == uninterrupted


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "state"])
def test_a_damaged_newest_checkpoint_is_passed_over_aloud(tmp_path, uninterrupted, damage):
    assert forked(tmp_path) == 0
    newest = tmp_path / f"step-{job.STEPS:08d}"
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
    (passed_over,) = resume(tmp_path, learners, stream)
    assert passed_over.folder == newest
    assert passed_over.reason
    assert learners[0].next_step == job.STEPS - 4
    assert forked(tmp_path) == 0
    assert final_state(tmp_path) == uninterrupted


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    train(job.learners("dense"), job.Shard(), job.TRAINING, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000036", "step-00000040"]
