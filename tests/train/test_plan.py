"""A whole run's plan adds up."""

import pytest
import torch

from quadric.train import AutoencoderConfig, Learner, TrainingConfig
from quadric.train.checkpoints import Checkpoint, write_checkpoint
from quadric.train.cost import step_flops
from quadric.train.machine import matmul_rate
from quadric.train.plan import plan_run

TRAINING = TrainingConfig(steps=300, alpha_warmup_steps=10)


def composite(**changes):
    return AutoencoderConfig(hook_point="x", n_latents=64, n_hidden=128, **changes)


def test_the_run_is_the_sum_of_its_steps():
    plan = plan_run(composite(), TRAINING, 32, 256, reading_flops_per_token=10.0)
    assert sum(each.n_steps for each in plan.phases) == 300
    expected = sum(each.n_steps * (step_flops(each.phase.size).total + 2560) for each in plan.phases)
    assert plan.flops == pytest.approx(expected)
    assert plan.seconds(1e6) == pytest.approx(expected / 1e6)
    assert plan.peak_bytes == max(each.memory.peak for each in plan.phases)
    assert plan.as_json()["flops"] == plan.flops


def test_processes_share_the_work_and_hold_the_same_state():
    alone, shared = (plan_run(composite(), TRAINING, 32, 256, processes) for processes in (1, 4))
    one, other = (plan.phases[-1].flops for plan in (alone, shared))
    assert other.encode == one.encode / 4
    assert other.gram < one.gram / 3
    assert other.optimizer == one.optimizer / 2, "L and R on one process each"
    assert shared.phases[-1].memory.state == alone.phases[-1].memory.state


@pytest.mark.parametrize(
    ("batch_tokens", "processes", "message"),
    [(0, 1, "batch_tokens=0"), (8, 0, "processes=0"), (10, 4, "cannot be shared evenly")],
)
def test_impossible_shares_are_refused(batch_tokens, processes, message):
    with pytest.raises(ValueError, match=message):
        plan_run(composite(), TRAINING, 32, batch_tokens, processes)


def test_checkpoints_are_counted_with_the_one_being_written(tmp_path):
    """Against a checkpoint on disk, in the dense phase, which is the larger."""
    config = composite(seed=1)
    learner = Learner(config.build(32), config, TRAINING)
    learner.step(torch.randn(64, 32))
    write_checkpoint(tmp_path, Checkpoint(1, [{}], {"one": learner.state()}), keep=2)
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    assert plan_run(config, TRAINING, 32, 64).checkpoint_bytes == pytest.approx(3 * on_disk, rel=0.05)


def test_the_rate_of_this_machine_is_a_rate():
    assert 1e6 < matmul_rate(64, 0.01) < 1e16
