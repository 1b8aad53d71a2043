"""Newton–Schulz on the entries of a sparse matrix, against the same rounds on the masked dense one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.model.fast import newton_schulz
from quadric.model.fast.newton_schulz import (
    COEFFICIENTS,
    ROUNDS,
    column_pairs,
    count_pairs,
    orthogonalized_on_pattern,
    rounds_for,
)
from quadric.model.fast.products import csr_pattern
from quadric.train.optimizers import Muon, SparseMuon
from tests.exactness import DTYPES, TOLERANCE, random


def masked_rounds(matrix: torch.Tensor, mask: torch.Tensor, n_rounds: int) -> torch.Tensor:
    a, b, c = COEFFICIENTS
    x = matrix / matrix.norm().clamp(min=1e-7)
    for _ in range(n_rounds):
        gram = x @ x.mT
        once = mask * (gram @ x)
        x = a * x + b * once + c * mask * (gram @ once)
    return x


def sparse(rows, columns, density, dtype=torch.float64):
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows * columns)) < density
    mask[0, 0] = True
    pattern = csr_pattern(*mask.nonzero(as_tuple=True), (rows, columns))
    return mask, pattern, random(int(mask.sum()), dtype=dtype)


def dense_of(mask, values):
    return torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)


@settings(max_examples=30)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), density=st.sampled_from([0.1, 0.5, 1.0]))
def test_pairs_are_all_entries_that_share_a_column(rows, columns, density):
    mask, pattern, _ = sparse(rows, columns, density)
    pairs = column_pairs(pattern)
    by_column = mask.mT.nonzero()
    expected = {
        (p, q) for p, (one, _) in enumerate(by_column.tolist()) for q, (two, _) in enumerate(by_column.tolist())
        if one == two
    }  # fmt: skip
    assert set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == expected
    assert count_pairs(pattern) == len(expected) == len(pairs.first)


@DTYPES
@pytest.mark.parametrize("n_rounds", [1, 2, ROUNDS])
@pytest.mark.parametrize(("rows", "columns", "density"), [(1, 1, 1.0), (6, 9, 0.4), (30, 60, 0.1), (12, 7, 1.0)])
def test_the_rounds_are_those_of_the_masked_matrix(rows, columns, density, n_rounds, dtype):
    mask, pattern, values = sparse(rows, columns, density, dtype)
    ours = orthogonalized_on_pattern(values[pattern.by_column], column_pairs(pattern), n_rounds)[pattern.by_row]
    expected = masked_rounds(dense_of(mask, values), mask.to(dtype), n_rounds)[mask]
    assert_close(ours, expected, rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize(("rows", "columns", "density"), [(30, 60, 0.1), (12, 7, 1.0), (40, 40, 0.02)])
def test_blocks_of_columns_change_no_bit(rows, columns, density, monkeypatch):
    _, pattern, values = sparse(rows, columns, density, torch.float32)
    whole = column_pairs(pattern)
    monkeypatch.setattr(newton_schulz, "PAIRS_AT_ONCE", 5)
    cut = column_pairs(pattern)
    assert len(whole.blocks) == 1 < len(cut.blocks)
    assert torch.equal(*(orthogonalized_on_pattern(values[pattern.by_column], each, 3) for each in (whole, cut)))


@pytest.mark.parametrize("shape", [(5, 8), (8, 5)])
def test_with_every_entry_and_every_round_it_is_muon(shape, monkeypatch):
    monkeypatch.setattr(newton_schulz, "rounds_for", lambda pattern: ROUNDS)
    mask, pattern, start = sparse(*shape, 1.0)
    values, weight = torch.nn.Parameter(start.clone()), torch.nn.Parameter(dense_of(mask, start))
    both = SparseMuon(values, pattern, 0.03, 0.95), Muon([weight], 0.03, 0.95)
    for step in range(4):
        values.grad = random(len(values), seed=step)
        weight.grad = dense_of(mask, values.grad)
        for optimizer in both:
            optimizer.step()
    assert_close(dense_of(mask, values.detach()), weight.detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("rows", "columns", "rounds"), [(1, 1, 1), (1, 50, 1), (10, 80, 2), (8192, 16384, ROUNDS)])
def test_more_rows_take_more_rounds(rows, columns, rounds):
    places = torch.arange(max(rows, columns))
    assert rounds_for(csr_pattern(places % rows, places % columns, (rows, columns))) == rounds


def test_empty_rows_and_columns_do_not_count_and_an_empty_pattern_has_a_round():
    places = torch.arange(10)
    assert rounds_for(csr_pattern(places, 2 * places, (5000, 5000))) == 2
    assert rounds_for(csr_pattern(places[:0], places[:0], (5000, 5000))) == 1


@pytest.mark.parametrize("n_rows", [10, 100, 576, 2048])
def test_an_ordinary_direction_comes_out_near_one_and_a_faint_one_stays_faint(n_rows):
    """Rows that share no atom are the singular vectors, so their norms are the singular values."""
    places = torch.arange(n_rows)
    pattern = csr_pattern(places, places, (n_rows, n_rows))
    values = torch.ones(n_rows, dtype=torch.float64)
    values[0] = 1e-6
    direction = orthogonalized_on_pattern(values, column_pairs(pattern), rounds_for(pattern))
    assert ((direction[1:] > 0.6) & (direction[1:] < 1.3)).all()
    assert direction[0] < 2e-5


def test_too_many_pairs_fall_back_to_scaled_rows(monkeypatch):
    monkeypatch.setattr(newton_schulz, "MOST_PAIRS", 3)
    mask, pattern, start = sparse(5, 8, 0.6)
    values = torch.nn.Parameter(start.clone())
    values.grad = random(len(start), seed=3)
    SparseMuon(values, pattern, 0.1, 0.0).step()
    moved = dense_of(mask, start - values.detach())
    used = mask.any(1)
    assert_close(moved.norm(dim=1)[used], torch.full((int(used.sum()),), 0.1, dtype=torch.float64))


def test_a_zero_gradient_moves_nothing():
    _, pattern, start = sparse(5, 8, 0.6)
    values = torch.nn.Parameter(start.clone())
    values.grad = torch.zeros_like(values)
    SparseMuon(values, pattern, 0.1, 0.9).step()
    assert torch.equal(values, start)
