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
from quadric import Composite, Training
from quadric.evaluation import blocks
from quadric.geometry.neighbours import redundancy
from quadric.model import settings as settings_module
from quadric.model.fast import large, lifted
from quadric.model.fast import step as fast_step
from quadric.model.fast.step import path_of
from quadric.model.step import values_of
from quadric.model.terms import Density, Error, Mean, Overlap
from quadric.train import Cell, Learner

NEIGHBOURS = import_module("quadric.geometry.neighbours")  # quadric.geometry.neighbours is the function
K, H, D, N = 300, 900, 5, 20
SETTINGS = Composite(n_latents=K, n_hidden=H, atoms_per_latent=4, initial_density=6 / H, lens="paper")
LOSS = (Mean(), Error(top=3), Density(0.05), Overlap())


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
    monkeypatch.setattr(fast_step, "LARGEST_KERNEL", H - 1)
    monkeypatch.setattr(settings_module, "LARGEST_KERNEL", H - 1)
    monkeypatch.setattr(NEIGHBOURS, "LARGEST_KERNEL", H - 1)
    monkeypatch.setattr(blocks, "LARGEST_KERNEL", H - 1)
    monkeypatch.setattr(lifted, "NUMBERS_AT_ONCE", 1000)
    monkeypatch.setattr(large, "SAMPLED_ENTRIES", 64)


def tokens() -> torch.Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(0))


def learner() -> Learner:
    return Learner(SETTINGS.build(D), LOSS, Training(steps=4))


def test_the_counter_sees_a_kernel_and_a_dense_mixing() -> None:
    dictionary = learner().dictionary
    assert largest(dictionary.kernel) >= K * K
    assert largest(dictionary.mixing.matrix) >= K * H


def test_training_saving_and_loading_hold_nothing_as_large_as_a_kernel(tmp_path: Path) -> None:
    x, made = tokens(), []

    def train() -> None:
        made.append(learner())
        reports = [made[0].step(x) for _ in range(4)]
        assert reports[-1]["error"] < reports[0]["error"]
        state = {name: value.clone() for name, value in made[0].state().items()}
        made[0].restore(state, 2)
        made[0].step(x)
        made[0].dictionary.save_pretrained(tmp_path / "saved")

    found = largest(train)
    assert path_of(made[0].dictionary) == "lifted"
    assert N * H <= found < K * K // 2, "atom activations of the batch are the largest"
    loaded: list[Any] = []
    assert largest(lambda: loaded.append(quadric.load(tmp_path / "saved"))) < K * K // 2
    torch.testing.assert_close(loaded[0].encode(x), made[0].dictionary.encode(x))


def test_a_dictionary_that_starts_too_dense_for_the_product_space_is_told_what_to_do() -> None:
    dense = replace(SETTINGS, initial_density=0.05)
    with pytest.raises(ValueError, match=r"top=3\) needs the entries of C, .* \(initial_density below 0\.01\)"):
        Cell(settings=dense, loss=(Error(top=3),))
    Cell(settings=dense)  # its own loss has no such term


@pytest.mark.parametrize("top", [None, 3])
def test_no_loss_and_no_error_holds_anything_as_large_as_a_kernel(
    top: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dictionary, x = learner().dictionary, tokens()
    loss = (Error(top=top), Overlap(0.1))

    def backward() -> None:
        total, _ = values_of(loss, dictionary.step(x, loss))
        assert total.isfinite()
        total.backward()

    assert largest(backward) < K * K // 2
    assert largest(lambda: dictionary.error(x)) < K * K // 2
    monkeypatch.setattr(NEIGHBOURS, "FORMS_AT_ONCE", 64)
    assert largest(lambda: redundancy(dictionary)) < K * K // 2
    found: list[Any] = []
    assert largest(lambda: found.append(quadric.evaluate(dictionary, x, progress=False))) < K * K // 2
    assert found[0].n_distinct > 0
