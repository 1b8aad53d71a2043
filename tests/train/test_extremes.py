"""Extreme activations and settings: a finite answer or a clear error, and never a negative error."""

from typing import Any

import pytest
import torch
from torch import Tensor

import quadric
from quadric.cli import main
from quadric.model import Density, Error
from quadric.model.settings import settings_class
from quadric.train import DivergedError
from tests.tiny_runs import make_tiny_world, train_command

pytestmark = pytest.mark.slow

ROWS = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
PRIORS = ("atomic", "composite", "quadratic", "topk", "batch_topk")
ROUNDING = 1e-5
"""The error is a difference of sums near 1, in float32."""


def fit(rows: Tensor, prior: str, **more: Any) -> list[float]:
    """Train a little; the error of every step and of the trained dictionary on the rows."""
    sizes = {"n_latents": 6, **({"n_active": 1} if "topk" in prior else {}), **more.pop("sizes", {})}
    errors: list[float] = []
    ae = quadric.fit(
        rows, settings_class(prior)(**sizes), batch_tokens=100, progress=False,
        callbacks=[lambda learner: errors.append(learner.report["error"])], **{"steps": 10, **more},
    )  # fmt: skip
    return [*errors, *ae.error(rows).tolist()]


def check(errors: list[float]) -> None:
    assert torch.tensor(errors).isfinite().all()
    assert min(errors) >= -ROUNDING


def constant_dimensions() -> Tensor:
    rows = ROWS.clone()
    rows[:, 2] = 0
    rows[:, 3] = 7
    return rows


EXTREMES = {
    "tiny": ROWS * 1e-30,
    "huge": ROWS * 1e30,
    "denormal": ROWS * 1e-40,
    "one large dimension": ROWS * torch.tensor([1e15, *[1.0] * 7]),
    "constant dimensions": constant_dimensions(),
    "identical tokens": torch.ones(50, 8),
    "opposite tokens": torch.ones(50, 8) * torch.tensor([1.0, -1.0]).repeat(25)[:, None],
    "one token": torch.ones(1, 8),
    "one direction per token": torch.eye(8).repeat(4, 1),
    "half precision": ROWS.half(),
}


ONE_DIRECTION = ("identical tokens", "one token")
"""Nothing is left of these once their mean is taken out."""


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_activations(name: str, prior: str) -> None:
    lens = {} if "topk" in prior or name not in ONE_DIRECTION else {"lens": "paper"}
    check(fit(EXTREMES[name], prior, sizes=lens))


@pytest.mark.parametrize("name", ONE_DIRECTION)
def test_tokens_without_spread_cannot_be_centred(name: str) -> None:
    with pytest.raises(ValueError, match=r"all tokens point in the same direction.*train with lens='paper'"):
        fit(EXTREMES[name], "composite")


@pytest.mark.parametrize("prior", PRIORS)
def test_the_smallest_sizes(prior: str) -> None:
    check(fit(ROWS[:, :1], prior, sizes={"n_latents": 1}))
    if prior in ("composite", "quadratic"):
        check(fit(ROWS[:, :1], prior, sizes={"n_latents": 1, "n_hidden": 1}))
        check(fit(ROWS, prior, sizes={"n_latents": 1, "n_hidden": 1}))


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
@pytest.mark.parametrize("alpha", [0.0, 1e9, 1e30])
def test_extreme_penalties(prior: str, alpha: float) -> None:
    check(fit(ROWS, prior, loss=[Error(), Density(alpha)]))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_token_without_a_direction_is_named(prior: str, value: float) -> None:
    rows = ROWS[:100].clone()
    rows[5] = value
    with pytest.raises(ValueError, match=r"token \d+ is (all zero|not finite) .*; leave such tokens out"):
        fit(rows, prior)


@pytest.mark.parametrize("prior", PRIORS)
def test_an_error_that_exploded_is_remarked(prior: str) -> None:
    remarked = r"the error of the dictionary is .* where reconstructing nothing has 1; lower learning_rate=10 "
    with pytest.warns(UserWarning, match=remarked):
        fit(ROWS, prior, training=quadric.Training(learning_rate=10.0), steps=40)


@pytest.mark.parametrize("prior", PRIORS)
def test_divergence_is_caught_and_says_what_to_change(prior: str) -> None:
    with pytest.raises(DivergedError, match=r"is (nan|inf) .* at step \d+.*; the last .* lower learning_rate=1e\+30"):
        fit(ROWS, prior, training=quadric.Training(learning_rate=1e30), steps=40)


def test_the_command_remarks_too(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world = make_tiny_world(tmp_path)
    assert main(train_command(world, tmp_path / "run", "--prior", "atomic", "--learning-rate", "10")) == 0
    assert "where reconstructing nothing has 1; train again with a lower --learning-rate" in capsys.readouterr().err


def test_neighbouring_seeds_differ() -> None:
    weights = [quadric.Atomic(n_latents=4, lens="paper").build(4, seed=seed).left for seed in (0, 2**32 - 1)]
    assert not torch.equal(*weights)
