"""A dictionary that computes its error in the product space holds no k×k, k×h or h×h matrix, from start to end."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import quadric
from quadric.geometry.neighbours import redundancy
from quadric.model import bilinear
from quadric.model.fast import lifted
from quadric.train import AutoencoderConfig, Learner, TrainingConfig

K, H, D, N = 300, 900, 5, 20
CONFIG = AutoencoderConfig(
    hook_point="rows", n_latents=K, n_hidden=H, mixing_density=4 / H, initial_density=6 / H, top_latents=3
)


class LargestTensor(TorchDispatchMode):
    """Records the largest number of entries of any dense tensor that an operation returns."""

    numel = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, torch.Tensor) and each.layout == torch.strided:
                # A view of few numbers, such as an expanded one, is not a matrix in memory.
                self.numel = max(self.numel, each.untyped_storage().nbytes() // each.element_size())
        return result


def largest(work: Callable[[], object]) -> int:
    with LargestTensor() as record:
        work()
    return record.numel


@pytest.fixture(autouse=True)
def many_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilinear, "LARGEST_DENSE_GRAM", H - 1)
    monkeypatch.setattr(lifted, "NUMBERS_AT_ONCE", 1000)


def tokens() -> torch.Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(0))


def learner() -> Learner:
    return Learner(CONFIG.build(D), CONFIG, TrainingConfig(steps=4, alpha_warmup_steps=1))


def test_the_counter_sees_a_kernel_and_a_dense_mixing() -> None:
    ae = learner().autoencoder
    assert largest(ae.kernel) >= K * K
    assert largest(ae.mixing.matrix) >= K * H


def test_training_saving_and_loading_hold_nothing_as_large_as_a_kernel(tmp_path: Path) -> None:
    x, made = tokens(), []

    def train() -> None:
        made.append(learner())
        reports = [made[0].step(x) for _ in range(4)]
        assert reports[-1].error < reports[0].error
        state = {name: value.clone() for name, value in made[0].state().items()}
        made[0].restore(state, 2)
        made[0].step(x)
        made[0].autoencoder.save_pretrained(tmp_path / "saved")

    found = largest(train)
    assert made[0].autoencoder.error_path == "lifted"
    assert N * H <= found < K * K // 2, "atom activations of the batch are the largest"
    loaded: list[Any] = []
    assert largest(lambda: loaded.append(quadric.load(tmp_path / "saved"))) < K * K // 2
    torch.testing.assert_close(loaded[0].encode(x), made[0].autoencoder.encode(x))


def test_a_dictionary_that_starts_too_dense_for_the_product_space_is_told_what_to_do() -> None:
    config = replace(CONFIG, initial_density=0.05)
    with pytest.raises(ValueError, match=r"top_latents=3 needs .* None, or start with an initial_density below 0\.01"):
        Learner(config.build(D), config, TrainingConfig(steps=4, alpha_warmup_steps=1)).step(tokens())


@pytest.mark.parametrize("top_latents", [None, 3])
def test_no_loss_and_no_error_holds_anything_as_large_as_a_kernel(
    top_latents: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ae, x = learner().autoencoder, tokens()
    loss = ae.loss(x, overlap_penalty=0.1, top_latents=top_latents)
    assert largest(lambda: ae.loss(x, overlap_penalty=0.1, top_latents=top_latents).total.backward()) < K * K // 2
    assert largest(lambda: ae.error(x)) < K * K // 2
    monkeypatch.setattr(import_module("quadric.geometry.neighbours"), "FORMS_AT_ONCE", 64)
    assert largest(lambda: redundancy(ae)) < K * K // 2
    found: list[Any] = []
    assert largest(lambda: found.append(quadric.evaluate(ae, x, progress=False))) < K * K // 2
    assert found[0].n_distinct > 0
    assert loss.total.isfinite()
