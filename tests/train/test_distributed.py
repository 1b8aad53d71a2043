"""Two processes with half a batch each do what one process does with all of it."""

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

NAMES = ("sparse", "dense", "quadratic", "atomic", "topk")
JOB = fresh_process.module("tests.train.job")


def printed(results):
    """Step and error of every line that the processes of a job printed."""
    lines = [line for each in results for line in each.stdout.splitlines()]
    return [(int(line.split()[0]), float(line.split()[1])) for line in lines if re.match(r"\d+ ", line)]


def errors(results):
    return [error for _, error in printed(results)]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    results = fresh_process.run_job(JOB, folder, "--autoencoders", *NAMES)
    assert [each.returncode for each in results] == [0, 0], results[0].stderr + results[1].stderr
    return folder, results


def test_losses_and_weights_agree_with_one_process(two_ranks, tmp_path):
    folder, results = two_ranks
    one = fresh_process.run(JOB, tmp_path, "--autoencoders", *NAMES)
    assert one.returncode == 0, one.stderr
    learners = job.learners(*NAMES)
    resume(tmp_path, learners, job.Shard())
    assert len(errors(results)) == job.STEPS, "logged once, not once per process"
    assert errors(results) == pytest.approx(errors([one]), rel=1e-4)
    checkpoint, _ = newest_checkpoint(folder)
    for learner in learners:
        ours = learner.state()
        for name, value in checkpoint.learners[learner.config.name].items():
            mine, theirs = ours[name].double(), value.double()
            difference = (theirs - mine).norm() / mine.norm().clamp(min=1e-6)
            assert difference < 1e-2, f"{learner.config.name} {name} differs by {difference}"


def test_every_rank_keeps_its_own_cursor_and_the_job_resumes(two_ranks, tmp_path):
    whole = job.learners(*NAMES)
    with pytest.raises(ValueError, match=r"made by 2 processes and this job has 1, .*; resume with torchrun"):
        resume(two_ranks[0], whole, job.Shard())
    killed = fresh_process.run_job(JOB, tmp_path, "--autoencoders", "dense", "--kill-at", 9)
    codes = [each.returncode for each in killed]  # the rank that is killed later may fail on the lost connection first
    assert -signal.SIGKILL in codes
    assert 0 not in codes
    resumed = fresh_process.run_job(JOB, tmp_path, "--autoencoders", "dense")
    assert [each.returncode for each in resumed] == [0, 0], resumed[0].stderr + resumed[1].stderr
    assert [step for step, _ in printed(resumed)] == list(range(9, job.STEPS + 1)), "went on after step 8"


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


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_process_takes_the_gpu_of_its_local_rank(four_gpus, device):
    join_job(device)
    own = torch.device("cuda", 2)
    assert four_gpus == [("set_device", own), ("cpu:gloo,cuda:nccl", {"device_id": own})]


def test_the_cpu_is_used_if_asked_for(four_gpus):
    join_job("cpu")
    assert four_gpus == [("gloo", {})]


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda:1", "device=cuda:1 would be shared by the 4 processes of this machine; give cuda"),
        ("mps", "no device 'mps' for the processes of a job; give auto or cpu, cuda"),
        ("warp", "no device 'warp' for the processes of a job; give auto or cpu, cuda"),
    ],
)
def test_a_device_that_processes_cannot_share_is_one_line(four_gpus, device, words):
    with pytest.raises(ValueError, match=words):
        join_job(device)
    assert not four_gpus, "no group was joined"


def test_more_processes_than_gpus_are_one_line(four_gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        ValueError, match=r"there are 2 GPUs for the 4 processes .* --nproc-per-node 2, or --device cpu"
    ):
        join_job()


def test_one_process_per_machine_may_choose_its_gpu(four_gpus, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert local_device("cuda:3") == torch.device("cuda", 3)
    assert local_device() == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_device() == torch.device("cpu")
    with pytest.raises(ValueError, match="no device 'cuda' for the processes of a job; give auto or cpu"):
        local_device("cuda")


def test_gradients_of_two_ranks_are_those_of_one(tmp_path):
    """One step, compared exactly: gradients in float64, before any optimizer touches them."""
    results = fresh_process.run_job(GRADIENTS, tmp_path)
    assert [each.returncode for each in results] == [0, 0], results[0].stderr + results[1].stderr
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for name, value in ranks[0].items():
        torch.testing.assert_close(value, ranks[1][name], rtol=0, atol=0)
        torch.testing.assert_close(value, ranks[0][name.replace("ours", "whole")], rtol=1e-10, atol=1e-14)


GRADIENTS = """
import sys, torch
from quadric.model.fast.shared import Share
from quadric.train.distributed import join_job, leave_job, sum_gradients, sum_over_processes
from tests import zoo

rank = join_job()
saved = {}
for variety in zoo.VARIETIES:
    x = zoo.tokens(30)
    for name, batch in (("ours", x[:11] if rank.is_first else x[11:]), ("whole", x)):
        ae = zoo.make(variety)
        share = Share(*rank) if name == "ours" else None
        sums = ae.loss_sums(batch, overlap_penalty=0.1, top_latents=5, mean_penalty=0.5, share=share)
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


def test_two_ranks_train_in_the_product_space_as_one_does(tmp_path):
    results = fresh_process.run_job(PRODUCT_SPACE, tmp_path)
    assert [each.returncode for each in results] == [0, 0], results[0].stderr + results[1].stderr
    one = fresh_process.run(PRODUCT_SPACE, tmp_path)
    assert one.returncode == 0, one.stderr
    first, second, alone = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("0", "1", "alone"))
    for name, (losses, state) in alone.items():
        assert first[name][0] == pytest.approx(losses, rel=1e-4), name
        assert losses[-1] < 0.9 * losses[0], f"{name} trains"
        for part, value in state.items():
            torch.testing.assert_close(first[name][1][part], second[name][1][part], rtol=0, atol=0)
            difference = (first[name][1][part] - value).double().norm() / value.double().norm().clamp(min=1e-6)
            assert difference < 1e-2, f"{name} {part} differs by {difference}"


PRODUCT_SPACE = """
import sys, torch
from quadric.model import bilinear
from quadric.train import AutoencoderConfig, Learner, TrainingConfig
from quadric.train.distributed import join_job, leave_job

bilinear.LARGEST_DENSE_GRAM = 100
torch.set_num_threads(1)
rank = join_job()
saved, shared = {}, {"hook_point": "x", "n_latents": 120, "n_hidden": 800, "mixing_density": 3 / 800, "lens": "paper"}
for top_latents, overlap_penalty, mean_penalty in ((8, 0.0, 1.0), (None, 0.01, 0.0)):
    penalties = {"overlap_penalty": overlap_penalty, "mean_penalty": mean_penalty}
    config = AutoencoderConfig(**shared, initial_density=6 / 800, top_latents=top_latents, **penalties)
    learner = Learner(config.build(8), config, TrainingConfig(steps=12, alpha_warmup_steps=2))
    assert learner.autoencoder.error_path == "lifted"
    batches = torch.randn(12, 96, 8, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 9)
    losses = [learner.step(batch[rank.number :: rank.world_size]).error for batch in batches]
    saved[str(top_latents)] = (losses, learner.state())
torch.save(saved, f"{sys.argv[1]}/{rank.number if rank.world_size > 1 else 'alone'}.pt")
leave_job()
"""


def test_two_ranks_orthogonalize_a_large_matrix_as_one_does(tmp_path):
    results = fresh_process.run_job(ORTHOGONALIZED, tmp_path)
    assert [each.returncode for each in results] == [0, 0], results[0].stderr + results[1].stderr
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for shape, (shared, alone) in ranks[0].items():
        torch.testing.assert_close(shared, ranks[1][shape][0], rtol=0, atol=0)
        torch.testing.assert_close(shared, alone, rtol=1e-9, atol=1e-12)


ORTHOGONALIZED = """
import sys, torch
from quadric.model.fast.shared import Share
from quadric.train.distributed import join_job, leave_job
from quadric.train.optimizers import orthogonalized

rank = join_job()
saved = {}
for shape in ((513, 601), (530, 512), (7, 3)):  # uneven rows; fewer rows than blocks
    matrix = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    saved[str(shape)] = (orthogonalized(matrix, Share(*rank)).contiguous(), orthogonalized(matrix).contiguous())
torch.save(saved, f"{sys.argv[1]}/{rank.number}.pt")
leave_job()
"""
