"""Fast against naive implementations: values and gradients, in both precisions."""

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from quadric.model.fast import products

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three rows, so that small matrices take several blocks, the last one smaller."""
    monkeypatch.setattr(products, "SMALLEST_BLOCK", 3)


def assert_same(
    fast: Callable[..., torch.Tensor], naive: Callable[..., torch.Tensor], *inputs: torch.Tensor, seed: int = 9
) -> None:
    """Both give the same value, and the same gradients of a random function of it.

    The tolerance is relative to the largest entry: entries that cancel have no relative accuracy to compare.
    """
    results = []
    for function in (fast, naive):
        leaves = [value.detach().clone().requires_grad_() for value in inputs]
        output = function(*leaves)
        weight = random(*output.shape, dtype=output.dtype, seed=seed)
        results.append((output, *torch.autograd.grad((output * weight).sum(), leaves)))
    for got, want in zip(*results, strict=True):
        scale = want.abs().max().item() or 1.0
        assert_close(got / scale, want / scale, rtol=0, atol=TOLERANCE[want.dtype])
