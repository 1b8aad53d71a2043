"""The parts of the kernel that several processes compute, added up in one process, against the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import products
from quadric.model.fast.kernel import atom_gram, dense_kernel
from quadric.model.fast.shared import Share, atomic_kernel_part, dense_kernel_part, gram_rows
from quadric.model.fast.step import FastStep, kernel_of, kernel_part_of
from tests.exactness import random, small_blocks  # noqa: F401
from tests.model.fast.test_step import VARIETIES, make
from tests.model.test_step import assert_same_gradients

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


@PROCESSES
@pytest.mark.parametrize("variety", VARIETIES)
def test_parts_of_every_kind_of_kernel_add_up(variety, n_processes, small_blocks):  # noqa: F811
    """Value and gradients of all parameters, through the mixing."""
    ae = make(variety)
    left, right = FastStep.factors_of(ae, torch.float64)
    parts = (kernel_part_of(ae.mixing, gram_rows(left, right, ae.symmetric, each)) for each in shares(n_processes))
    ours, expected = sum(parts), kernel_of(ae.mixing, atom_gram(*FastStep.factors_of(ae, torch.float64), ae.symmetric))
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    weight = random(*ours.shape, seed=9)
    assert_same_gradients((ours * weight).sum(), (expected * weight).sum(), ae, 1e-10)


@pytest.mark.parametrize("h", [1, 3])
def test_processes_without_any_atom_add_nothing(h):
    left, right = random(h, 5), random(h, 5, seed=1)
    parts = [atomic_kernel_part(gram_rows(left, right, True, each)) for each in shares(8)]
    torch.testing.assert_close(sum(parts), atom_gram(left, right))


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
