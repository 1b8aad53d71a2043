"""The predicted time of a step in the product space: its work, and the rates at which this machine does it."""

from dataclasses import replace

import pytest

from quadric.training import AutoencoderConfig, TrainingConfig
from quadric.training.cost import StepSize, step_flops
from quadric.training.plan import plan_run
from quadric.training.timing import StepWork, lifted_work, measure_rates

SIZE = StepSize(
    d_model=129, n_tokens=2048, n_latents=65_536, n_hidden=131_072, prior="composite",
    mixing_density=16 / 131_072, top_latents=32,
)  # fmt: skip


def test_time_is_the_sum_over_the_kinds_of_work():
    assert StepWork(6.0, 4.0, 10.0, 3.0).seconds(StepWork(2.0, 4.0, 5.0, 1.0)) == 3 + 1 + 2 + 3


def test_all_products_of_a_step_are_work():
    work, flops = lifted_work(SIZE), step_flops(SIZE)
    assert work.products + work.sparse_products == pytest.approx(flops.total)
    assert work.pair_rounds == pytest.approx(5 * (2**20 + 2**40 // 131_072))


def test_work_on_tokens_doubles_with_them_and_work_on_entries_does_not():
    once, twice = lifted_work(SIZE), lifted_work(replace(SIZE, n_tokens=4096))
    assert twice.sparse_products == 2 * once.sparse_products
    assert twice.pair_rounds == once.pair_rounds
    assert 1.8 * once.numbers < twice.numbers < 2 * once.numbers


def test_a_run_in_the_product_space_is_planned_by_its_work():
    config = AutoencoderConfig(
        hook_point="x", n_latents=65_536, mixing_density=16 / 131_072, initial_density=32 / 131_072, top_latents=32
    )
    plan = plan_run(config, TrainingConfig(steps=10, alpha_warmup_steps=1), 128, 2048)
    rates = StepWork(1e10, 1e9, 1e7, 1e9)
    assert plan.has_work
    annealed, last = (lifted_work(each.phase.size).seconds(rates) for each in plan.phases)
    assert last < annealed
    assert plan.seconds(1e12, rates) == pytest.approx(5 * annealed + 5 * last)
    assert plan.seconds(1e12) == pytest.approx(plan.flops / 1e12), "without rates, the products alone"


@pytest.mark.slow
def test_the_rates_of_this_machine_are_rates():
    assert all(1e5 < rate < 1e15 for rate in measure_rates(16, seconds=0.01))
