"""The loop: many at once as if alone, annealing on schedule, and honest stops."""

from itertools import islice

import pytest
import torch

from quadric.model.mixing import Sparse
from quadric.train import AutoencoderConfig, DivergedError, Learner, TrainingConfig, train
from quadric.train.checkpoints import newest_checkpoint
from quadric.train.loop import remark_before
from quadric.train.optimizers import Muon
from tests.train import job


@pytest.mark.slow
@pytest.mark.parametrize("name", job.CONFIGS)
def test_every_autoencoder_learns(name, tmp_path):
    reports = []
    (learner,) = job.learners(name)
    train([learner], job.Shard(), job.TRAINING, tmp_path, lambda step, r: reports.append((step, *r.values())))
    assert [step for step, *_ in reports] == list(range(1, job.STEPS + 1))
    assert {report.n_tokens for _, report in reports} == {job.TOKENS}
    errors = [report.error for *_, report in reports]
    assert sum(errors[-5:]) < 0.7 * sum(errors[:5])


def test_many_at_once_are_each_as_if_trained_alone(tmp_path):
    together = job.learners(*job.CONFIGS)
    train(together, job.Shard(), job.TRAINING, tmp_path / "together")
    for name, learner in zip(job.CONFIGS, together, strict=True):
        (alone,) = job.learners(name)
        train([alone], job.Shard(), job.TRAINING, tmp_path / name)
        assert job.fingerprint(alone) == job.fingerprint(learner)


def test_a_composite_is_thinned_out_on_schedule_and_then_frozen(tmp_path):
    (learner,) = job.learners("sparse")
    shares, supports = [], []

    def watch(step, reports):
        shares.append(learner.autoencoder.mixing_density)
        rows, columns, _ = learner.autoencoder.mixing.entries()
        supports.append((rows.tolist(), columns.tolist()))

    train([learner], job.Shard(), job.TRAINING, tmp_path, watch)
    assert shares[0] == 1
    assert shares[20:] == [pytest.approx(0.003, rel=0.06)] * 20
    assert isinstance(learner.autoencoder.mixing, Sparse)
    assert all(support == supports[-1] for support in supports[32:])


def test_the_optimizer_of_sparse_values_keeps_the_memory_of_the_entries_that_stay():
    (learner,) = job.learners("sparse")
    for batch in islice(job.Shard(), 18):
        learner.step(batch.activations["planted"])
    assert isinstance(learner.autoencoder.mixing, Sparse)
    memory = learner.optimizers.mixing.state_dict()["state"][0]
    by_place = _by_place(learner, memory["momentum_buffer"])
    kept = learner.autoencoder.set_mixing_density(0.004)
    assert len(kept) < len(by_place)
    learner.optimizers.follow_mixing(kept)
    after = learner.optimizers.mixing.state_dict()["state"][0]
    assert memory["momentum_buffer"].any()
    for place, value in _by_place(learner, after["momentum_buffer"]).items():
        assert by_place[place] == value


def _by_place(learner, values):
    rows, columns, _ = learner.autoencoder.mixing.entries()
    return dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), values.tolist(), strict=True))


class Poisoned(job.Shard):
    """A stream whose tokens make the loss infinite at batch 10."""

    def __init__(self, learner):
        super().__init__()
        self.learner = learner

    def __iter__(self):
        for batch in super().__iter__():
            if int(batch.documents[0]) == 10:
                with torch.no_grad():
                    self.learner.autoencoder.left *= 1e20
            yield batch


def test_a_diverging_loss_stops_with_its_place_and_leaves_a_healthy_checkpoint(tmp_path):
    (learner,) = job.learners("quadratic")
    message = r"loss of planted-quadratic.* is (inf|nan) \(.*\) at step 10, on documents 10 to 10; the last checkpoint"
    with pytest.raises(DivergedError, match=message):
        train([learner], Poisoned(learner), job.TRAINING, tmp_path)
    checkpoint, damaged = newest_checkpoint(tmp_path)
    assert (checkpoint.step, damaged) == (8, [])
    for state in checkpoint.learners.values():
        assert all(value.isfinite().all() for value in state.values())


class Short(job.Shard):
    def __iter__(self):
        return islice(super().__iter__(), 5)


def test_too_little_text_is_named(tmp_path):
    with pytest.raises(ValueError, match="the text ended at step 5 of 40; give more text or fewer steps"):
        train(job.learners("topk"), Short(), job.TRAINING, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 500, "alpha_warmup_steps": 600}, "alpha_warmup_steps=600 exceeds steps=500; shorten the warm-up"),
        ({"steps": 0}, "steps=0 is not positive"),
        ({"checkpoint_every": 0}, "checkpoint_every=0 is not positive"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must exceed 0"),
        ({"learning_rate_decay": 1.5}, r"learning_rate_decay=1.5 is outside \[0, 1\]"),
        ({"learning_rate_decay": -0.1}, r"learning_rate_decay=-0.1 is outside \[0, 1\]"),
        ({"learning_rate_decay": float("nan")}, r"learning_rate_decay=nan is outside \[0, 1\]"),
        ({"momentum": 1.0}, r"momentum=1.0 lie in \[0, 1\)"),
    ],
)
def test_impossible_training_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_latents": 0}, "n_latents=0"),
        ({"prior": "atomic", "n_hidden": 5}, "n_hidden=5 differs"),
        ({"mixing_density": 0.0}, r"\(0, 1\]"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"kind": "topk", "n_latents": 8}, "n_active=32 exceeds n_latents=8"),
    ],
)
def test_impossible_autoencoders_are_refused_before_any_text_is_read(arguments, message):
    with pytest.raises(ValueError, match=message):
        AutoencoderConfig(**{"hook_point": "planted", "n_latents": 16, **arguments})


def test_names_tell_all_variants_apart():
    configs = [
        AutoencoderConfig(hook_point=hook, n_latents=32, seed=seed, **variant)
        for hook in ("resid_pre.1", "resid_pre.2")
        for seed in (0, 1)
        for variant in (
            {},
            {"n_hidden": 40},
            {"mixing_density": 0.01},
            {"alpha": 0.0},
            {"prior": "quadratic"},
            {"prior": "atomic"},
            {"tied": True},
            {"symmetric": False},
            {"init": "xavier"},
            {"kind": "topk"},
            {"kind": "batch_topk"},
            {"kind": "topk", "n_active": 8},
        )
    ]
    assert len({config.name for config in configs}) == len(configs)


def test_the_paper_is_the_default():
    training, ae = TrainingConfig(), AutoencoderConfig(hook_point="resid_pre.18")
    assert (training.steps, training.alpha_warmup_steps, training.learning_rate, training.momentum) == (
        2**11,
        256,
        0.03,
        0.95,
    )
    assert (ae.n_latents, ae.n_hidden, ae.mixing_density, ae.alpha, ae.prior) == (8192, None, 0.001, 0.3, "composite")
    (learner,) = job.learners("quadratic")
    muon = learner.optimizers.matrices.param_groups[0]
    assert (muon["lr"], muon["momentum"]) == (0.03, 0.95)
    assert isinstance(learner.optimizers.mixing, Muon), "C, while it is dense, is a matrix like L and R"


@pytest.mark.parametrize(
    ("n_hidden", "rate", "is_remarked"), [(4000, 0.03, True), (4000, 0.01, False), (400, 0.03, False)]
)
def test_steps_longer_than_the_atoms_are_remarked_on_before_training(n_hidden, rate, is_remarked):
    """Atoms start shorter the more there are: at 4,000 on 8 coordinates, 0.03 is two thirds of their length."""
    config = AutoencoderConfig(
        hook_point="x", n_latents=40, n_hidden=n_hidden, mixing_density=3 / n_hidden, initial_density=3 / n_hidden,
        lens="paper",
    )  # fmt: skip
    training = TrainingConfig(steps=2, alpha_warmup_steps=1, learning_rate=rate)
    words = remark_before(Learner(config.build(8), config, training), training)
    assert (words is not None) == is_remarked
    if words is not None:
        assert "learning_rate=0.03 moves" in words
        assert words.endswith("give at most 0.027")
