"""The loop: many at once as if alone, callbacks, annealing on schedule, and honest stops."""

from itertools import islice

import pytest
import torch

from quadric.model import Composite
from quadric.train import DivergedError, Learner, Training, resume, train
from quadric.train.checkpoints import newest_checkpoint
from quadric.train.loop import remark, remark_before
from tests.train import job


def test_many_at_once_are_each_as_if_trained_alone(tmp_path):
    together, errors = job.learners(*job.CELLS), []
    note = [lambda learner: errors.append(learner.report["error"])]
    train(together, job.Shard(), job.TRAINING, tmp_path / "together", note)
    first, last = errors[: 5 * len(together)], errors[-5 * len(together) :]
    assert sum(last) < 0.7 * sum(first), "they learn"
    for name, learner in zip(job.CELLS, together, strict=True):
        (alone,) = job.learners(name)
        train([alone], job.Shard(), job.TRAINING, tmp_path / name)
        assert job.fingerprint(alone) == job.fingerprint(learner)


def test_callbacks_get_every_learner_and_one_that_returns_true_ends_the_training_resumably(tmp_path):
    seen = []

    def note(learner):
        seen.append((learner.name, learner.step_index))
        return "not True"

    def stop(learner):
        return learner.name == "dense" and learner.step_index == 6 and learner.report["error"] > 0

    names = ("topk", "dense")
    train(job.learners(*names), job.Shard(), job.TRAINING, tmp_path, [stop, note])
    assert seen == [(name, step) for step in range(1, 7) for name in names], "the step is finished for all"
    stopped, stream = job.learners(*names), job.Shard()
    assert resume(tmp_path, stopped, stream) == []
    assert [each.step_index for each in stopped] == [6, 6], "saved there, though no checkpoint was due"
    train(stopped, stream, job.TRAINING, tmp_path)
    whole = job.learners(*names)
    train(whole, job.Shard(), job.TRAINING)
    assert list(map(job.fingerprint, stopped)) == list(map(job.fingerprint, whole))


class Poisoned(job.Shard):
    """A stream whose tokens make the loss infinite at batch 10."""

    def __init__(self, learner):
        super().__init__()
        self.learner = learner

    def __iter__(self):
        for batch in super().__iter__():
            if int(batch.documents[0]) == 10:
                with torch.no_grad():
                    self.learner.dictionary.left *= 1e20
            yield batch


def test_a_diverging_loss_stops_with_its_place_and_leaves_a_healthy_checkpoint(tmp_path):
    (learner,) = job.learners("quadratic")
    message = r"loss of quadratic is (inf|nan) \(.*\) at step 10, on documents 10 to 10; the last checkpoint.*=0.03"
    with pytest.raises(DivergedError, match=message):
        train([learner], Poisoned(learner), job.TRAINING, tmp_path)
    checkpoint, damaged = newest_checkpoint(tmp_path)
    assert (checkpoint.step, damaged) == (8, [])
    assert all(value.isfinite().all() for state in checkpoint.learners.values() for value in state.values())


class Short(job.Shard):
    def __iter__(self):
        return islice(super().__iter__(), 5)


def test_too_little_text_is_named(tmp_path):
    with pytest.raises(ValueError, match="the text ended at step 5 of 40; give more text or fewer steps"):
        train(job.learners("topk"), Short(), job.TRAINING, tmp_path)


@pytest.mark.parametrize(
    ("n_hidden", "rate", "is_remarked"), [(4000, 0.03, True), (4000, 0.01, False), (400, 0.03, False)]
)
def test_steps_longer_than_the_atoms_are_remarked_on_before_training(n_hidden, rate, is_remarked):
    """Atoms start shorter the more there are: at 4,000 on 8 coordinates, 0.03 is two thirds of their length."""
    settings = Composite(
        n_latents=40, n_hidden=n_hidden, atoms_per_latent=3.0, initial_density=3 / n_hidden, lens="paper"
    )
    words = remark_before(Learner(settings.build(8), training=Training(steps=2, learning_rate=rate)))
    assert (words is not None) == is_remarked
    if words is not None:
        assert "learning_rate=0.03 moves" in words
        assert words.endswith("give at most 0.027")


def test_an_error_that_exploded_is_remarked_on_after_training():
    assert remark("it", {"error": 0.5}, 0.1) is remark("it", {"squared_error": 99.0}, 0.1) is None
    words = remark("it", {"error": 12.3}, 3.0)
    assert words.startswith("the error of it is 12 after training, where reconstructing nothing has 1; lower")
