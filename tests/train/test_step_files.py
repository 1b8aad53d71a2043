"""A training step can be read in a few files: those of the package whose functions a step enters are counted."""

import sys
from pathlib import Path

import pytest
import torch

import quadric
from quadric.model.mixing import Sparse
from quadric.train import AutoencoderConfig, Learner, TrainingConfig

PACKAGE = Path(quadric.__file__).parent
MOST_FILES = 8
STEPS = 40


def files_entered(work) -> set[str]:
    """Files of the package in which a function is called while `work` runs, the backward pass included."""
    entered = set()

    def watch(frame, event, argument):
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {str(Path(name).relative_to(PACKAGE)) for name in entered if Path(name).is_relative_to(PACKAGE)}


def learner_at(step: int) -> Learner:
    config = AutoencoderConfig(hook_point="rows", n_latents=40, n_hidden=80, mixing_density=0.003)
    training = TrainingConfig(steps=STEPS, alpha_warmup_steps=5)
    learner = Learner(config.build(12), config, training)
    while learner.next_step < step:
        learner.step(tokens(learner.next_step))
    return learner


def tokens(seed: int) -> torch.Tensor:
    return torch.randn(64, 12, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("step", [18, 35], ids=["while C is thinned out", "while its support is frozen"])
def test_a_step_with_sparse_c_touches_at_most_eight_files(step):
    learner = learner_at(step)
    assert isinstance(learner.autoencoder.mixing, Sparse)
    entered = files_entered(lambda: learner.step(tokens(step)))
    assert {"training/learner.py", "autoencoders/bilinear.py", "autoencoders/kernels/kernel.py"} <= entered
    assert len(entered) <= MOST_FILES, sorted(entered)


def test_the_count_sees_the_backward_pass():
    """autograd calls the backward functions of the kernels; a count that missed them would be too small."""
    learner = learner_at(35)
    sums = learner.autoencoder.loss_sums(tokens(35))
    entered = files_entered(sums.terms(0.3).total.backward)
    assert {"autoencoders/kernels/kernel.py", "autoencoders/kernels/latents.py"} <= entered
