"""Two processes with half a batch each do what one process does with all of it."""

import re
import subprocess
import sys

import pytest
import torch

from quadric.training.checkpoints import newest_checkpoint
from quadric.training.loop import resume
from tests.training import job

NAMES = ("sparse", "dense", "quadratic", "atomic", "topk")


def torchrun(folder, *arguments):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    rest = ["-m", "tests.training.job", str(folder), *map(str, arguments)]
    return subprocess.run([*launcher, *rest], capture_output=True, text=True, check=False, timeout=300)


def errors(result):
    """What a job printed, step by step."""
    return [float(line.split()[1]) for line in result.stdout.splitlines() if re.match(r"\d+ ", line)]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    result = torchrun(folder, "--autoencoders", *NAMES)
    assert result.returncode == 0, result.stderr
    return folder, result


def test_losses_and_weights_agree_with_one_process(two_ranks, tmp_path):
    folder, result = two_ranks
    alone = [sys.executable, "-m", "tests.training.job", str(tmp_path), "--autoencoders", *NAMES]
    one = subprocess.run(alone, capture_output=True, text=True, check=True)
    learners = job.learners(*NAMES)
    resume(tmp_path, learners, job.Shard())
    assert len(errors(result)) == job.STEPS, "logged once, not once a process"
    assert errors(result) == pytest.approx(errors(one), rel=1e-4)
    checkpoint, _ = newest_checkpoint(folder)
    for learner in learners:
        ours = learner.state()
        for name, value in checkpoint.learners[learner.config.name].items():
            mine, theirs = ours[name].double(), value.double()
            difference = (theirs - mine).norm() / mine.norm().clamp(min=1e-6)
            assert difference < 1e-2, f"{learner.config.name} {name} differs by {difference}"


def test_every_rank_keeps_its_own_cursor_and_the_job_resumes(two_ranks, tmp_path):
    whole = job.learners(*NAMES)
    with pytest.raises(ValueError, match="made by 2 processes and this job has 1; resume with torchrun"):
        resume(two_ranks[0], whole, job.Shard())
    result = torchrun(tmp_path, "--autoencoders", "dense", "--kill-at", 9)
    assert result.returncode != 0
    result = torchrun(tmp_path, "--autoencoders", "dense")
    assert result.returncode == 0, result.stderr
    first = next(line for line in result.stdout.splitlines() if re.match(r"\d+ ", line))
    assert first.startswith("9 "), "went on after the checkpoint of step 8"


def test_gradients_of_two_ranks_are_those_of_one(tmp_path):
    """One step, compared exactly: gradients in float64, before any optimizer touches them."""
    script = tmp_path / "gradients.py"
    script.write_text(GRADIENTS)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    result = subprocess.run([*launcher, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for name, value in ranks[0].items():
        torch.testing.assert_close(value, ranks[1][name], rtol=0, atol=0)
        torch.testing.assert_close(value, ranks[0][name.replace("ours", "whole")], rtol=1e-10, atol=1e-14)


GRADIENTS = """
import sys, torch
from quadric.training.distributed import join_job, leave_job, sum_gradients, sum_over_processes
from tests import zoo

rank = join_job()
saved = {}
for variety in ("composite sparse storage", "composite dense storage", "quadratic", "atomic tied"):
    x = zoo.tokens(30)
    for name, batch in (("ours", x[:11] if rank.is_first else x[11:]), ("whole", x)):
        ae = zoo.make(variety)
        sums = ae.loss_sums(batch)
        terms = (sum_over_processes(sums) if name == "ours" else sums).terms(0.3)
        terms.total.backward()
        if name == "ours":
            sum_gradients(ae)
        saved[f"{variety} {name} total"] = terms.total.detach()
        for parameter_name, parameter in ae.named_parameters():
            saved[f"{variety} {name} {parameter_name}"] = parameter.grad
torch.save(saved, f"{sys.argv[1]}/{rank.number}.pt")
leave_job()
"""
