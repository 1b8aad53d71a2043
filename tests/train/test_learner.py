"""One dictionary in training: its schedules, its report, its optimizers, and the state that it saves."""

from itertools import islice

import pytest
import torch

from quadric.model import Atomic, BatchTopK, Composite, Density, Error, Mean, Quadratic, Term
from quadric.model.fast.sparse import Sparse
from quadric.train import DivergedError, Learner, Training
from quadric.train.learner import decay_at
from quadric.train.optimizers import Muon, SparseMuon
from tests.train import job


def rows(n: int = 64, d: int = 8) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def test_a_report_has_the_value_of_every_term_by_its_name():
    loss = (Error(top=2), Density(0.0), Mean(0.5), job.Activity(0.1))
    learner = Learner(Composite(n_latents=20, lens="paper").build(8), loss, Training(steps=4))
    assert (learner.report, learner.step_index) == ({}, 0)
    report = learner.step(rows())
    assert report is learner.report
    assert list(report) == ["error", "mean", "activity", "density", "mixing_density", "tokens"]
    assert all(isinstance(value, float) for name, value in report.items() if name != "tokens")
    assert (report["mixing_density"], report["tokens"], learner.step_index) == (1.0, 64, 1)


def test_a_term_cannot_have_the_name_of_a_fact_of_the_dictionary():
    class Taken(Term):
        name = "mixing_density"

        def __call__(self, step):
            return step.z.sum()

    with pytest.raises(ValueError, match="a composite reports a mixing_density of its own; give the term another name"):
        Learner(Composite(n_latents=20, lens="paper").build(8), (Error(), Taken()))


def test_a_loss_that_cannot_be_trained_is_refused():
    ae = Atomic(n_latents=6, lens="paper").build(8)
    with pytest.raises(ValueError, match="the loss has no term with a weight above 0"):
        Learner(ae, (Error(0.0),))
    with pytest.raises(ValueError, match=r"density.warmup=9 exceeds steps=4"):
        Learner(ae, (Error(), Density(warmup=9)), Training(steps=4))


def test_the_thresholds_of_a_batch_topk_are_set_by_steps():
    learner = Learner(BatchTopK(n_latents=20, n_active=3).build(8), training=Training(steps=2))
    learner.step(rows())
    assert learner.dictionary.threshold > 0


def trained(dtype: str) -> torch.Tensor:
    ae = Atomic(n_latents=32, lens="paper").build(8)
    learner = Learner(ae, training=Training(steps=4, gradient_dtype=dtype))
    for _ in range(4):
        learner.step(rows(256))
    return ae.left


@pytest.mark.filterwarnings("ignore:this CPU has no instructions for bfloat16")
def test_a_learner_rounds_its_own_gradients_and_no_others():
    exact, rounded, again = (trained(dtype) for dtype in ("float32", "bfloat16", "auto"))
    assert torch.equal(exact, again)
    assert 0 < (rounded - exact).norm() / exact.norm() < 0.05


@pytest.mark.parametrize(
    ("found", "emulated"),
    [
        ({"architecture": "x86_64"}, True),
        ({"architecture": "x86_64", "avx512_bf16": True}, False),
        ({"architecture": "x86_64", "amx_bf16": True}, False),
        ({"architecture": "aarch64"}, False),  # nothing is known about its instructions
        ({}, False),
    ],
)
def test_a_cpu_that_emulates_bfloat16_is_warned_of(found, emulated, monkeypatch, recwarn):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    trained("bfloat16")
    assert [str(each.message) for each in recwarn] == emulated * [
        "this CPU has no instructions for bfloat16, so gradient_dtype='bfloat16' makes steps slower; leave it out"
    ]


def test_the_learning_rate_is_constant_and_then_falls_to_zero():
    assert [decay_at(step, 8, 0.5) for step in range(9)] == pytest.approx([1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])
    assert {decay_at(step, 8, 0.0) for step in range(9)} == {1.0}


def test_decay_scales_the_update_of_every_parameter():
    """The same gradients at half the learning rate move every parameter half as far."""
    moved = {}
    for steps in (2, 4):  # the second of two steps has half the rate, the second of four three quarters
        loss = (Error(), Density(0.3, warmup=0))
        training = Training(steps=steps, learning_rate_decay=1.0)
        learner = Learner(Quadratic(n_latents=6, lens="paper").build(8), loss, training)
        learner.step(rows())
        before = {name: value.detach().clone() for name, value in learner.dictionary.named_parameters()}
        learner.step(rows())
        moved[steps] = {name: value.detach() - before[name] for name, value in learner.dictionary.named_parameters()}
    assert moved[2].keys() == {"left", "right", "mixing.weight", "offset"}
    for name, change in moved[2].items():
        assert change.abs().max() > 0
        torch.testing.assert_close(change / 0.5, moved[4][name] / 0.75, rtol=1e-3, atol=1e-6)


def test_muon_updates_matrices_and_adamw_vectors():
    (learner,) = job.learners("quadratic")
    kinds = {name: type(optimizer) for name, optimizer in learner.optimizers.parts.items()}
    assert kinds == {"matrices": Muon, "vectors": torch.optim.AdamW, "mixing": Muon}
    muon = learner.optimizers.parts["matrices"].param_groups[0]
    assert (muon["lr"], muon["momentum"]) == (0.03, 0.95)
    (learner,) = job.learners("sparse")
    for batch in islice(job.Shard(), 18):
        learner.step(batch.activations["planted"])
    assert isinstance(learner.optimizers.parts["mixing"], SparseMuon)


def test_the_optimizer_of_sparse_values_keeps_the_memory_of_the_entries_that_stay():
    (learner,) = job.learners("sparse")
    for batch in islice(job.Shard(), 18):
        learner.step(batch.activations["planted"])
    ae, optimizers = learner.dictionary, learner.optimizers
    assert isinstance(ae.mixing, Sparse)
    before = by_place(ae, optimizers.parts["mixing"].state[ae.mixing.values]["momentum_buffer"])
    assert any(before.values())
    moved = ae.before_step(19, job.STEPS)
    optimizers.follow(moved)
    after = by_place(ae, optimizers.parts["mixing"].state[ae.mixing.values]["momentum_buffer"])
    assert len(after) < len(before)
    assert all(before[place] == value for place, value in after.items())


def by_place(ae, values):
    rows, columns, _ = ae.mixing.entries()
    return dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), values.tolist(), strict=True))


@pytest.mark.parametrize("name", job.CELLS)
def test_a_saved_state_continues_to_the_same_bits(name):
    """From before and after the storage of C changes."""
    batches = [batch.activations["planted"] for batch in islice(job.Shard(), 24)]
    for begun in (6, 20):
        (learner,), (other,) = job.learners(name), job.learners(name)
        for batch in batches[:begun]:
            learner.step(batch)
        state = {key: value.clone() for key, value in learner.state().items()}
        assert any(key.startswith("optimizer.matrices.") for key in state)
        other.restore(state, learner.step_index)
        for batch in batches[begun:]:
            assert learner.step(batch) == other.step(batch)
        assert job.fingerprint(learner) == job.fingerprint(other)


def test_the_same_factors_are_saved_once_and_derived_buffers_not_at_all():
    (squares,), (sparse,) = job.learners("atomic"), job.learners("sparse")
    assert {key for key in squares.state() if key.startswith("dictionary.")} == {"dictionary.left", "dictionary.offset"}
    for batch in islice(job.Shard(), 20):
        sparse.step(batch.activations["planted"])
    prefix = "dictionary.mixing."
    stored = {key.removeprefix(prefix) for key in sparse.state() if key.startswith(prefix)}
    assert stored == {"values", "row_starts", "columns", "column_starts", "rows_by_column", "by_column", "by_row"}


def test_a_loss_that_is_not_finite_updates_nothing():
    learner = Learner(Atomic(n_latents=6, lens="paper").build(8), training=Training(steps=2), name="mine")
    with torch.no_grad():
        learner.dictionary.left.mul_(1e20)
    before = learner.dictionary.left.detach().clone()
    with pytest.raises(DivergedError, match=r"the loss of mine is (inf|nan) \(error .*, density .*\) at step 0"):
        learner.step(rows())
    assert torch.equal(learner.dictionary.left, before)


def test_latents_outside_the_strongest_add_up_to_nothing_with_a_mean():
    """Many latents, and an error of three of them: without the term all latents together miss the mean."""
    x, missed = rows(512, 12) + 2, []
    training = Training(steps=60, learning_rate=0.03, learning_rate_decay=0.0)
    for loss in ((Error(top=3),), (Mean(), Error(top=3))):
        learner = Learner(Atomic(n_latents=96, lens="paper").build(12), loss, training)
        reports = [learner.step(x) for _ in range(60)]
        assert reports[-1]["error"] < 0.5 * reports[0]["error"]
        missed.append(float(learner.dictionary.error(x).mean().detach()))
    assert missed[1] < 0.5 * missed[0]
