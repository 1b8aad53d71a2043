"""Newton–Schulz on the entries of a sparse matrix, against the same rounds on the masked dense one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from quadric.autoencoders.csr import csr_pattern
from quadric.training import pattern_muon
from quadric.training.muon import COEFFICIENTS, ROUNDS, Muon
from quadric.training.pattern_muon import PatternMuon, column_pairs, count_pairs, orthogonalised_on_pattern
from tests.exactness import DTYPES, TOLERANCE, random


def masked_rounds(matrix: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    a, b, c = COEFFICIENTS
    x = matrix / matrix.norm().clamp(min=1e-7)
    for _ in range(ROUNDS):
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


@settings(deadline=None, max_examples=30)
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
@pytest.mark.parametrize(("rows", "columns", "density"), [(1, 1, 1.0), (6, 9, 0.4), (30, 60, 0.1), (12, 7, 1.0)])
def test_the_rounds_are_those_of_the_masked_matrix(rows, columns, density, dtype):
    mask, pattern, values = sparse(rows, columns, density, dtype)
    ours = orthogonalised_on_pattern(values[pattern.by_column], column_pairs(pattern))[pattern.by_row]
    expected = masked_rounds(dense_of(mask, values), mask.to(dtype))[mask]
    assert_close(ours, expected, rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(5, 8), (8, 5)])
def test_with_every_entry_it_is_muon(shape):
    mask, pattern, start = sparse(*shape, 1.0)
    values, weight = torch.nn.Parameter(start.clone()), torch.nn.Parameter(dense_of(mask, start))
    optimisers = PatternMuon(values, pattern, 0.03, 0.95), Muon([weight], 0.03, 0.95)
    for step in range(4):
        values.grad = random(len(values), seed=step)
        weight.grad = dense_of(mask, values.grad)
        for optimiser in optimisers:
            optimiser.step()
    assert_close(dense_of(mask, values.detach()), weight.detach(), rtol=0, atol=1e-10)


def test_rows_that_share_no_atom_are_scaled_alike():
    mask = torch.eye(4).repeat_interleave(3, 1).bool()
    pattern = csr_pattern(*mask.nonzero(as_tuple=True), (4, 12))
    values = random(12)
    direction = orthogonalised_on_pattern(values[pattern.by_column], column_pairs(pattern))[pattern.by_row]
    norms = dense_of(mask, direction).norm(dim=1)
    assert ((norms > 0.6) & (norms < 1.3)).all()


def test_too_many_pairs_fall_back_to_scaled_rows(monkeypatch):
    monkeypatch.setattr(pattern_muon, "MOST_PAIRS", 3)
    mask, pattern, start = sparse(5, 8, 0.6)
    values = torch.nn.Parameter(start.clone())
    values.grad = random(len(start), seed=3)
    PatternMuon(values, pattern, 0.1, 0.0).step()
    moved = dense_of(mask, start - values.detach())
    used = mask.any(1)
    assert_close(moved.norm(dim=1)[used], torch.full((int(used.sum()),), 0.1, dtype=torch.float64))


def test_a_zero_gradient_moves_nothing():
    _, pattern, start = sparse(5, 8, 0.6)
    values = torch.nn.Parameter(start.clone())
    values.grad = torch.zeros_like(values)
    PatternMuon(values, pattern, 0.1, 0.9).step()
    assert torch.equal(values, start)
