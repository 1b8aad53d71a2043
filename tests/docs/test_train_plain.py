"""docs/train_plain.py ends at the losses of `quadric.fit` on the same rows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import quadric

SCRIPT = Path(__file__).parents[2] / "docs" / "train_plain.py"
LONGEST = 70
KINDS = pytest.mark.parametrize(
    "kind",
    [quadric.Composite(n_latents=32), quadric.Quadratic(n_latents=24), quadric.Atomic(n_latents=32)],
    ids=lambda kind: kind.kind,
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_plain", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> torch.Tensor:
    return torch.randn(3000, 24, generator=torch.Generator().manual_seed(0)) + 0.5


def fitted(kind: quadric.Settings, steps: int) -> tuple[quadric.Dictionary, dict[str, float]]:
    reports: list[dict[str, float]] = []
    ae = quadric.fit(
        rows(), kind, steps=steps, batch_tokens=512, seed=3, progress=False,
        callbacks=[lambda learner: reports.append(dict(learner.report))],
    )  # fmt: skip
    return ae, reports[-1]


@KINDS
def test_it_trains_the_same_dictionary_to_the_bit(script: ModuleType, kind: quadric.Settings) -> None:
    ae, report = fitted(kind, steps=30)
    same, last = script.train(rows(), kind, 30, size=512, seed=3)
    assert {name: report[name] for name in last} == last
    assert len(last) == len(kind.default_loss())
    assert ae.tensors().keys() == same.tensors().keys()
    assert all(torch.equal(value, same.tensors()[name]) for name, value in ae.tensors().items())


@KINDS
def test_the_printed_formulas_end_at_the_same_losses(script: ModuleType, kind: quadric.Settings) -> None:
    """In few steps: each token's strongest latents are chosen anew, and a choice that rounding tips is no rounding."""
    _, report = fitted(kind, steps=16)
    _, last = script.train(rows(), kind, 16, size=512, seed=3, plain=True)
    assert last == pytest.approx({name: report[name] for name in last}, rel=1e-5)


def test_it_is_one_screen() -> None:
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= LONGEST
