"""Schedules as functions of the step, and the state that a learner saves."""

from itertools import islice, pairwise

import pytest
import torch

from quadric.train import AutoencoderConfig, TrainingConfig
from quadric.train.learner import Learner, alpha_at, decay_at, is_mask_frozen, mixing_density_at
from tests.train import job


def test_alpha_warms_up_linearly_and_stays():
    assert [alpha_at(step, 0.3, 4) for step in range(6)] == pytest.approx([0, 0.075, 0.15, 0.225, 0.3, 0.3])
    assert alpha_at(0, 0.3, 0) == 0.3


def test_density_decays_geometrically_over_the_first_half():
    densities = [mixing_density_at(step, 100, 0.001) for step in range(101)]
    assert densities[0] == 1
    assert densities[25] == pytest.approx(0.001**0.5)
    assert densities[50:] == [0.001] * 51
    ratios = [later / earlier for earlier, later in pairwise(densities[:51])]
    assert max(ratios) - min(ratios) < 1e-12


def test_density_decays_from_where_it_starts():
    densities = [mixing_density_at(step, 100, 0.001, 0.1) for step in range(101)]
    assert (densities[0], densities[25]) == pytest.approx((0.1, 0.01))
    assert densities[50:] == pytest.approx([0.001] * 51)


def test_a_composite_dictionary_that_starts_sparse_is_annealed_from_there():
    config = AutoencoderConfig(hook_point="rows", n_latents=100, mixing_density=0.002, initial_density=0.008)
    learner = Learner(config.build(8), config, TrainingConfig(steps=10, alpha_warmup_steps=2))
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    reports = [learner.step(x) for _ in range(10)]
    assert [report.mixing_density for report in reports[:1] + reports[5:]] == pytest.approx([0.008] + [0.002] * 5)
    assert learner.autoencoder.mixing.n_entries == 0.002 * 100 * 200
    assert reports[-1].error < reports[0].error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"initial_density": 0.0}, r"initial density 0\.0 is outside \(0, 1\]"),
        ({"initial_density": 1.5}, r"initial density 1\.5 is outside"),
        ({"initial_density": 0.0005}, "initial_density=0.0005 is below mixing_density=0.001.* at least 0.001"),
        ({"initial_density": 0.5, "prior": "quadratic"}, "initial_density=0.5 has no meaning for the quadratic prior"),
        ({"initial_density": 0.5, "kind": "topk"}, "initial_density=0.5 has no meaning for the topk"),
    ],
)
def test_an_impossible_initial_density_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AutoencoderConfig(hook_point="rows", **settings)


def test_a_linear_dictionary_has_no_gradient_products():
    with pytest.raises(ValueError, match="gradient_dtype='bfloat16' has no meaning for the topk; leave it out"):
        AutoencoderConfig(hook_point="rows", kind="topk", gradient_dtype="bfloat16")


def trained(dtype: str) -> Learner:
    config = AutoencoderConfig(hook_point="rows", prior="atomic", n_latents=32, gradient_dtype=dtype)
    learner = Learner(config.build(8), config, TrainingConfig(steps=4, alpha_warmup_steps=1))
    x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    for _ in range(4):
        learner.step(x)
    return learner


@pytest.mark.filterwarnings("ignore:this CPU has no instructions for bfloat16")
def test_a_learner_rounds_its_own_gradients_and_no_others():
    exact, rounded, again = (trained(dtype).autoencoder.left for dtype in ("float32", "bfloat16", "auto"))
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


def test_dictionaries_that_differ_in_their_gradients_have_different_names():
    names = [AutoencoderConfig(hook_point="rows", gradient_dtype=dtype).name for dtype in ("auto", "bfloat16")]
    assert names[1] == names[0].replace("-seed0", "-gradients-bfloat16-seed0")


def test_dictionaries_that_differ_in_their_start_have_different_names():
    names = [AutoencoderConfig(hook_point="rows", initial_density=density).name for density in (1.0, 0.1)]
    assert names[1] == names[0].replace("-density0.001", "-density0.001-from0.1")


def test_mask_freezes_for_the_last_fifth():
    assert [is_mask_frozen(step, 10) for step in range(10)] == [False] * 8 + [True] * 2


def test_the_learning_rate_is_constant_and_then_falls_to_zero():
    assert [decay_at(step, 8, 0.5) for step in range(8)] == pytest.approx([1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert decay_at(8, 8, 0.5) == 0
    assert [decay_at(step, 4, 1.0) for step in range(4)] == pytest.approx([1, 0.75, 0.5, 0.25])
    assert {decay_at(step, 8, 0.0) for step in range(9)} == {1.0}


def test_decay_scales_the_update_of_every_parameter():
    """The same gradients at half the learning rate move every parameter half as far."""
    moved = {}
    for steps in (2, 4):  # the second of two steps has half the rate, the second of four three quarters
        config = AutoencoderConfig(hook_point="rows", prior="quadratic", n_latents=6, alpha=0.3)
        training = TrainingConfig(steps=steps, alpha_warmup_steps=0, learning_rate_decay=1.0)
        learner = Learner(config.build(8), config, training)
        x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        learner.step(x)
        before = {name: value.detach().clone() for name, value in learner.autoencoder.named_parameters()}
        learner.step(x)
        moved[steps] = {name: value.detach() - before[name] for name, value in learner.autoencoder.named_parameters()}
    assert moved[2].keys() == {"left", "right", "mixing.weight", "offset"}
    for name, change in moved[2].items():
        assert change.abs().max() > 0
        torch.testing.assert_close(change / 0.5, moved[4][name] / 0.75, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["sparse", "dense", "quadratic", "atomic", "topk"])
@pytest.mark.parametrize("prefix", ["optimizer.", "optimiser."])
def test_a_saved_state_continues_to_the_same_bits_also_under_the_older_prefix(name, prefix):
    (learner,), (other,) = job.learners(name), job.learners(name)
    batches = [batch.activations["planted"] for batch in islice(job.Shard(), 24)]
    for batch in batches[:20]:
        learner.step(batch)
    state = {key.replace("optimizer.", prefix): value.clone() for key, value in learner.state().items()}
    assert any(key.startswith(f"{prefix}matrices.") for key in state)
    other.restore(state, learner.next_step)
    for batch in batches[20:]:
        assert learner.step(batch) == other.step(batch)
    assert job.fingerprint(learner) == job.fingerprint(other)


def test_tied_factors_are_saved_once_and_derived_buffers_not_at_all():
    (tied,), (sparse,) = job.learners("atomic"), job.learners("sparse")
    assert {key for key in tied.state() if key.startswith("autoencoder.")} == {"autoencoder.left", "autoencoder.offset"}
    for batch in islice(job.Shard(), 20):
        sparse.step(batch.activations["planted"])
    stored = {key.removeprefix("autoencoder.mixing.") for key in sparse.state() if ".mixing." in key and "auto" in key}
    assert stored == {"values", "row_starts", "columns", "column_starts", "rows_by_column", "by_column", "by_row"}


def test_latents_outside_the_strongest_add_up_to_nothing_with_a_mean_penalty():
    """Many latents, and an error of three of them: without the penalty all latents together miss the mean."""
    settings = {"hook_point": "rows", "prior": "atomic", "n_latents": 96, "top_latents": 3, "alpha": 0.0}
    x = torch.randn(512, 12, generator=torch.Generator().manual_seed(0)) + 2
    missed = []
    for mean_penalty in (0.0, 1.0):
        config = AutoencoderConfig(**settings, mean_penalty=mean_penalty)
        learner = Learner(config.build(12), config, TrainingConfig(steps=60, alpha_warmup_steps=1))
        reports = [learner.step(x) for _ in range(60)]
        assert reports[-1].error < 0.5 * reports[0].error
        missed.append(float(learner.autoencoder.error(x).mean().detach()))
    assert missed[1] < 0.5 * missed[0]
