"""The parts of the kernel that several processes compute, added up in one process, against the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from quadric.model import products
from quadric.model.fast.kernel import atom_gram, dense_kernel, sparse_kernel
from quadric.model.fast.shared import (
    GramRows,
    Share,
    atomic_kernel_part,
    dense_kernel_part,
    gram_rows,
    sparse_kernel_part,
)
from quadric.model.fast.storage import kernel_of, kernel_part_of
from quadric.model.products import CsrPattern, csr_pattern
from tests import zoo
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401

PROCESSES = pytest.mark.parametrize("n_processes", [2, 3, 8])


def shares(n_processes: int) -> list[Share]:
    return [Share(number, n_processes) for number in range(n_processes)]


def area(rows: slice, size: int) -> int:
    return (rows.stop - rows.start) * (size - rows.start)


@given(size=st.integers(1, 3000), n_processes=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_every_row_belongs_to_one_process(size, n_processes):
    blocks = [rows for share in shares(n_processes) for rows in share.row_blocks(size)]
    assert sorted(row for rows in blocks for row in range(size)[rows]) == list(range(size))
    assert all(rows.start < rows.stop for rows in blocks)


@pytest.mark.parametrize("n_processes", range(1, 9))
@pytest.mark.parametrize("size", [1576, 2304, 16384])
def test_areas_are_equal(size, n_processes):
    areas = [sum(area(rows, size) for rows in share.row_blocks(size)) for share in shares(n_processes)]
    assert max(areas) == pytest.approx(sum(areas) / n_processes, rel=0.01)
    alone = sum(area(rows, size) for rows in products.row_blocks(size))
    assert sum(areas) <= alone, "no more of the lower triangle than one process computes"


@DTYPES
@PROCESSES
@pytest.mark.parametrize("kind", ["symmetric", "printed", "same factors"])
@pytest.mark.parametrize("h", [1, 3, 8, 25])
def test_parts_of_the_gram_matrix_add_up(h, kind, n_processes, dtype, small_blocks):  # noqa: F811
    def factors(left, right):
        return (left, left) if kind == "same factors" else (left, right)

    def whole(*inputs):
        return atom_gram(*factors(*inputs), kind != "printed")

    def parts(*inputs):
        left, right = factors(*inputs)
        return sum(atomic_kernel_part(gram_rows(left, right, kind != "printed", each)) for each in shares(n_processes))

    assert_same(
        lambda a, b: parts(a, b) + 0 * b.sum(),
        lambda a, b: whole(a, b) + 0 * b.sum(),
        random(h, 5, dtype=dtype),
        random(h, 5, dtype=dtype, seed=1),
    )


def rows_of(gram: torch.Tensor, share: Share) -> GramRows:
    """The rows of a given symmetric matrix that a process would have computed."""
    blocks = share.row_blocks(len(gram))
    scale = torch.ones_like(gram)
    for rows in blocks:
        scale[rows, rows] = 0.5
    halves = [(gram * scale)[rows, rows.start :].flatten() for rows in blocks]
    return GramRows(torch.cat([*halves, gram.new_zeros(0)])[None], blocks, len(gram))


@DTYPES
@PROCESSES
@pytest.mark.parametrize(("k", "h"), [(1, 1), (4, 13), (13, 4), (24, 24)])
def test_parts_of_a_dense_kernel_add_up(k, h, n_processes, dtype, small_blocks):  # noqa: F811
    weight, half = random(k, h, dtype=dtype), random(h, h, dtype=dtype, seed=1)
    assert_same(
        lambda c, m: sum(dense_kernel_part(c, rows_of(m + m.mT, share)) for share in shares(n_processes)),
        lambda c, m: dense_kernel(c, m + m.mT),
        weight,
        half,
    )


def scattered(k: int, h: int, empty: list[int]) -> CsrPattern:
    mask = random(k, h) > 0.3
    mask[:, empty] = False
    return csr_pattern(*mask.nonzero(as_tuple=True), (k, h))


@DTYPES
@PROCESSES
@pytest.mark.parametrize(("h", "empty"), [(1, []), (9, [0, 4, 8]), (9, [5, 6, 7, 8]), (30, [])])
def test_parts_of_a_sparse_kernel_add_up(h, empty, n_processes, dtype, small_blocks):  # noqa: F811
    pattern = scattered(5, h, empty)
    values, half = random(len(pattern.columns), dtype=dtype), random(h, h, dtype=dtype, seed=1)
    assert_same(
        lambda v, m: sum(sparse_kernel_part(v, pattern, rows_of(m + m.mT, share)) for share in shares(n_processes)),
        lambda v, m: sparse_kernel(v, pattern, m + m.mT),
        values,
        half,
    )


@pytest.mark.slow
@PROCESSES
@pytest.mark.parametrize("variety", zoo.VARIETIES)
def test_parts_of_every_kind_of_kernel_add_up(variety, n_processes, small_blocks):  # noqa: F811
    """Value and gradients of all parameters, through the mixing."""
    found = []
    for compute in (zoo_kernel, lambda ae: sum(zoo_part(ae, share) for share in shares(n_processes))):
        ae = zoo.make(variety)
        kernel = compute(ae)
        (kernel * random(*kernel.shape, seed=9)).sum().backward()
        found.append([kernel.detach(), *(p.grad for p in ae.parameters() if p.grad is not None)])
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-12)


def zoo_kernel(ae):
    left, right = ae.used_factors(torch.float64)
    return kernel_of(ae.mixing, atom_gram(left, right, ae.symmetric))


def zoo_part(ae, share):
    left, right = ae.used_factors(torch.float64)
    return kernel_part_of(ae.mixing, gram_rows(left, right, ae.symmetric, share))


def test_no_process_computes_more_than_its_share():
    """Forward and backward at a size where blocks are those of real runs; mixing takes a few products more."""
    h, d, k = 2048, 8, 16
    left, right = (random(h, d, dtype=torch.float32, seed=seed).requires_grad_() for seed in (0, 1))
    weight = random(k, h, dtype=torch.float32).requires_grad_()

    def whole():
        dense_kernel(weight, atom_gram(left, right)).sum().backward()

    def part(share):
        dense_kernel_part(weight, gram_rows(left, right, True, share)).sum().backward()

    alone = counted(whole)
    for n_processes in (2, 4, 8):
        for share in shares(n_processes):
            assert counted(part, share) < 1.05 * alone / n_processes


def counted(work, *arguments) -> int:
    with FlopCounterMode(display=False) as counter:
        work(*arguments)
    return counter.get_total_flops()
