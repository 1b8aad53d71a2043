"""Two processes with a part of every batch each do what one process does with all of it."""

import re
import signal

import pytest
import torch

from quadric.train.checkpoints import newest_checkpoint
from quadric.train.distributed import join_job, local_device
from quadric.train.loop import resume
from tests import fresh_process
from tests.train import job

pytestmark = pytest.mark.slow

NAMES = ("sparse", "dense", "quadratic", "atomic", "own", "topk")
JOB = fresh_process.module("tests.train.job")


def losses(results):
    """Step and error of every line that the processes of a job printed."""
    lines = [line for each in results for line in each.stdout.splitlines()]
    return {int(line.split()[0]): float(line.split()[1]) for line in lines if re.match(r"\d+ ", line)}


def run_job(code, folder, *arguments):
    results = fresh_process.run_job(code, folder, *arguments)
    assert [each.returncode for each in results] == [0, 0], results[0].stderr + results[1].stderr
    return results


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, run_job(JOB, folder, "--dictionaries", *NAMES)


def test_losses_and_weights_agree_with_one_process(two_ranks, tmp_path):
    folder, results = two_ranks
    one = fresh_process.run(JOB, tmp_path, "--dictionaries", *NAMES)
    assert one.returncode == 0, one.stderr
    assert sum(each.stdout.count("\n") for each in results) == job.STEPS, "logged once, not once per process"
    assert losses(results) == pytest.approx(losses([one]), rel=1e-4)
    (ours, _), (theirs, _) = newest_checkpoint(folder), newest_checkpoint(tmp_path)
    for name in NAMES:
        for part, value in theirs.learners[name].items():
            difference = (ours.learners[name][part].double() - value.double()).norm() / value.double().norm().clamp(
                1e-6
            )
            assert difference < 1e-2, f"{name} {part} differs by {difference}"


def test_every_rank_keeps_its_own_cursor_and_the_job_resumes_to_the_same_bits(two_ranks, tmp_path):
    """With terms of a user's own; after a kill, and after a callback of one of the processes ended the training."""
    with pytest.raises(ValueError, match=r"made by 2 processes and this job has 1; resume with torchrun"):
        resume(two_ranks[0], job.learners(*NAMES), job.Shard())
    killed = fresh_process.run_job(JOB, tmp_path, "--dictionaries", "own", "--kill-at", 9)
    codes = [each.returncode for each in killed]  # the rank that is killed later may fail on the lost connection first
    assert -signal.SIGKILL in codes
    assert 0 not in codes
    stopped = run_job(JOB, tmp_path, "--dictionaries", "own", "--stop-at", 14)
    assert list(losses(stopped)) == list(range(9, 15)), "went on after step 8, and ended on both"
    assert newest_checkpoint(tmp_path)[0].step == 14
    resumed = run_job(JOB, tmp_path, "--dictionaries", "own")
    assert list(losses(resumed)) == list(range(15, job.STEPS + 1))
    whole, again = (newest_checkpoint(folder)[0].learners["own"] for folder in (two_ranks[0], tmp_path))
    assert all(torch.equal(again[name], value) for name, value in whole.items())


@pytest.fixture
def four_gpus(monkeypatch):
    """A machine with four GPUs, on which this is the third of four processes; returns the calls that were made."""
    calls = []
    for name, value in {"RANK": 6, "WORLD_SIZE": 8, "LOCAL_RANK": 2, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set_device", device)))
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **options: calls.append((backend, options))
    )
    return calls


def test_a_process_takes_the_gpu_of_its_local_rank_or_the_cpu_if_asked_for(four_gpus):
    own = torch.device("cuda", 2)
    for device in ("auto", "cuda"):
        join_job(device)
        assert four_gpus == [("set_device", own), ("cpu:gloo,cuda:nccl", {"device_id": own})]
        four_gpus.clear()
    join_job("cpu")
    assert four_gpus == [("gloo", {})]


@pytest.mark.parametrize(
    ("device", "n_gpus", "words"),
    [
        ("cuda:1", 4, "device=cuda:1 would be shared by the 4 processes of this machine; give cuda"),
        ("mps", 4, "no device 'mps' for the processes of a job; give auto or cpu, cuda"),
        ("warp", 4, "no device 'warp' for the processes of a job; give auto or cpu, cuda"),
        ("auto", 2, r"there are 2 GPUs for the 4 processes .* --nproc-per-node 2, or --device cpu"),
        ("cuda", 0, "no device 'cuda' for the processes of a job; give auto or cpu"),
    ],
)
def test_a_device_that_processes_cannot_share_is_one_line(four_gpus, device, n_gpus, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    with pytest.raises(ValueError, match=words):
        join_job(device)
    assert not four_gpus, "no group was joined"


def test_one_process_per_machine_may_choose_its_gpu(four_gpus, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert [local_device(device) for device in ("cuda:3", "auto")] == [torch.device("cuda", 3), torch.device("cuda", 0)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_device() == torch.device("cpu")


def test_values_and_gradients_of_two_ranks_are_those_of_one(tmp_path):
    """Of every term, ours or a user's, on tokens or on weights, before any optimizer touches them, in float64."""
    run_job(GRADIENTS, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert len(first) > 100
    for name, (ours, whole) in first.items():
        torch.testing.assert_close(ours, second[name][0], rtol=0, atol=0)
        torch.testing.assert_close(ours, whole, rtol=1e-10, atol=1e-14, msg=name)


GRADIENTS = """
import sys, torch
from quadric.model import Density, Error, Mean, Overlap, PlainStep, values_of
from quadric.model.fast import step
from quadric.model.processes import ALONE
from quadric.train.distributed import average_gradients, join_job, leave_job
from tests import zoo
from tests.train.job import Activity, AlikeForms, LargeWeights

rank = join_job()
saved, x = {}, zoo.tokens(30)
loss = [Mean(0.5), Error(top=5), Density(0.3), Overlap(0.1), Activity(0.2), LargeWeights(0.1), AlikeForms(0.3)]
ways = [(variety, way) for variety in zoo.VARIETIES for way in ("fast", "plain")]
for variety, way in ways + [(variety, "too large") for variety in zoo.SPARSE]:
    if way == "too large":
        loss, step.LARGEST_KERNEL = loss[:6], 10
    found = []
    for batch, processes in ((x[:11] if rank.is_first else x[11:], rank), (x, ALONE)):
        ae = zoo.make(variety)
        make = ae.step if way != "plain" else lambda *given, **more: PlainStep(ae, *given, **more)
        total, values = values_of(loss, make(batch, loss=loss, processes=processes))
        total.backward()
        average_gradients(ae, processes)
        found.append({name: value.detach() for name, value in values.items()}
                     | {name: parameter.grad for name, parameter in ae.named_parameters()})
    for name in found[0]:
        saved[f"{variety} {way} {name}"] = tuple(each[name] for each in found)
torch.save(saved, f"{sys.argv[1]}/{rank.number}.pt")
leave_job()
"""


def test_two_ranks_orthogonalize_a_large_matrix_as_one_does(tmp_path):
    run_job(ORTHOGONALIZED, tmp_path)
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for shape, (shared, alone) in ranks[0].items():
        torch.testing.assert_close(shared, ranks[1][shape][0], rtol=0, atol=0)
        torch.testing.assert_close(shared, alone, rtol=1e-9, atol=1e-12)


ORTHOGONALIZED = """
import sys, torch
from quadric.model.fast.shared import Share
from quadric.train.distributed import join_job, leave_job
from quadric.model.fast.newton_schulz import orthogonalized

rank = join_job()
saved = {}
for shape in ((513, 601), (530, 512), (7, 3)):  # uneven rows; fewer rows than blocks
    matrix = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    saved[str(shape)] = (orthogonalized(matrix, Share(*rank)).contiguous(), orthogonalized(matrix).contiguous())
torch.save(saved, f"{sys.argv[1]}/{rank.number}.pt")
leave_job()
"""
