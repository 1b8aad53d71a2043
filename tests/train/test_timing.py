"""The predicted time of a step in the product space: its work, and the rates at which this machine does it."""

from dataclasses import replace

import pytest
from quadric.train.plan import plan_run

from quadric.train import AutoencoderConfig, TrainingConfig
from quadric.train.cost import StepSize, step_flops
from quadric.train.timing import StepWork, lifted_work

SIZE = StepSize(
    d_model=129, n_tokens=2048, n_latents=65_536, n_hidden=131_072, prior="composite",
    mixing_density=16 / 131_072, top_latents=32,
)  # fmt: skip


RATES = StepWork(1e9, 1e9, 1e9, 1e8, 1e7, 1e9, 1e8, 1e11)


def test_time_is_the_sum_over_the_parts():
    work = StepWork(6.0, 4.0, 10.0, 3.0, 0.0, 1.0, 0.0, 8.0)
    assert work.seconds(StepWork(2.0, 4.0, 5.0, 1.0, 7.0, 1.0, 7.0, 4.0)) == 3 + 1 + 2 + 3 + 1 + 2


def test_work_follows_from_the_sizes():
    work = lifted_work(SIZE)
    assert work.activations == pytest.approx(2048 * 131_072, rel=0.001), "nearly every atom is used"
    assert work.activations + work.entries == 2048 * 2**20
    assert work.reconstruction == 2048 * 32 * 16
    assert work.pair_rounds == 5 * (2**20 + 2**40 // 131_072)
    assert work.penalties == 0


def test_work_on_tokens_doubles_with_them_and_work_on_entries_does_not():
    once, twice = lifted_work(SIZE), lifted_work(replace(SIZE, n_tokens=4096))
    for name in ("activations", "entries", "latents", "reconstruction"):
        assert getattr(twice, name) == 2 * getattr(once, name)
    for name in ("forms", "factors", "pair_rounds"):
        assert getattr(twice, name) == getattr(once, name) > 0


def test_all_latents_need_no_norms_and_the_overlap_is_products():
    work = lifted_work(replace(SIZE, top_latents=None, has_overlap_penalty=True))
    assert work.forms == 0
    assert work.reconstruction == 2048 * 65_536
    assert work.penalties == pytest.approx(step_flops(replace(SIZE, has_overlap_penalty=True)).kernel, rel=0.01)


def test_the_mean_penalty_is_products():
    work = lifted_work(replace(SIZE, has_mean_penalty=True))
    assert work.penalties == step_flops(replace(SIZE, has_mean_penalty=True)).error - step_flops(SIZE).error > 0


def test_an_atomic_dictionary_has_one_entry_per_latent():
    size = replace(SIZE, prior="atomic", n_hidden=65_536, mixing_density=1.0)
    assert size.error_path == "lifted"
    assert lifted_work(size).reconstruction == 2048 * 32
    assert lifted_work(size).entries == lifted_work(size).pair_rounds == 0


def test_a_run_in_the_product_space_is_planned_by_its_work():
    config = AutoencoderConfig(
        hook_point="x", n_latents=65_536, mixing_density=16 / 131_072, initial_density=32 / 131_072, top_latents=32
    )
    plan = plan_run(config, TrainingConfig(steps=10, alpha_warmup_steps=1), 128, 2048)
    rates = RATES
    assert plan.has_work
    annealed, last = (lifted_work(each.phase.size).seconds(rates) for each in plan.phases)
    assert last < annealed
    assert plan.seconds(1e12, rates) == pytest.approx(5 * annealed + 5 * last)
    assert plan.seconds(1e12) == pytest.approx(plan.flops / 1e12), "without rates, the products alone"
