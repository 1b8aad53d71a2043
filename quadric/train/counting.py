"""FLOPs of matrix products: torch.utils.flop_counter, extended to sparse products, counted by their entries."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode


def counted_flops(work: Callable[[], object]) -> int:
    """FLOPs of the matrix products that `work` runs, two per multiplication."""
    aten = torch.ops.aten
    formulas = {aten.mm: _product, aten.addmm: _added_product, aten.sparse_sampled_addmm: _sampled_product}
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        work()
    return int(counter.get_total_flops())


def _product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """A dense product by its sizes; a sparse left factor by its entries."""
    if left.layout == torch.sparse_csr:
        return int(2 * left.values().numel() * right.shape[1])
    return 2 * left.shape[0] * left.shape[1] * right.shape[1]


def _added_product(_total: Tensor, left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    return _product(left, right)


def _sampled_product(pattern: Tensor, left: Tensor, *_: Any, **__: Any) -> int:
    return int(2 * pattern.values().numel() * left.shape[1])


for _formula in (_product, _added_product, _sampled_product):
    setattr(_formula, "_get_raw", True)  # noqa: B010  # makes the counter pass tensors instead of shapes
