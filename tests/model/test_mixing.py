"""The priors as constraints on C, and its storages: identity, dense, masked, sparse."""

import pytest
import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from quadric.model.fast.products import csr_pattern
from quadric.model.fast.sparse import Sparse, scattered_mixing
from quadric.model.mixing import (
    SPARSE_BELOW,
    Composite,
    Dense,
    Identity,
    Masked,
    with_density,
)
from tests.exactness import random


def weight(k: int = 12, h: int = 50) -> torch.Tensor:
    return torch.randn(k, h, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def composite(weight: torch.Tensor, density: float) -> Composite:
    return with_density(Masked(weight), density).mixing


def dense_of(mixing: Composite) -> torch.Tensor:
    rows, columns, values = mixing.entries()
    matrix = torch.zeros(mixing.shape, dtype=values.dtype)
    matrix[rows, columns] = values
    return matrix


@pytest.mark.parametrize("density", [1.0, 0.3, SPARSE_BELOW, SPARSE_BELOW * 0.9, 1e-6])
def test_composite_keeps_exactly_the_globally_largest(density):
    full = weight()
    mixing = composite(full.clone(), density)
    kept = max(1, round(density * full.numel()))
    smallest_kept = full.abs().flatten().sort(descending=True).values[kept - 1]
    assert mixing.n_entries == kept
    assert_close(dense_of(mixing), torch.where(full.abs() >= smallest_kept, full, 0))
    assert composite(torch.ones(10, 10), 0.25).n_entries == 25, "ties do not let more through"


@pytest.mark.parametrize(
    "mixing", [composite(weight(), 0.2), composite(weight(), SPARSE_BELOW * 0.9), Identity(12), Dense(weight())]
)
def test_products_and_rows_are_those_of_the_matrix(mixing):
    matrix = mixing.matrix().double()
    atoms, latents = random(5, mixing.shape[1]), random(5, 12, seed=1)
    assert_close(mixing.mix(atoms), atoms @ matrix.mT)
    assert_close(mixing.unmix(latents), latents @ matrix)
    assert int((matrix != 0).sum()) == mixing.n_entries
    for number, (own, weights) in enumerate(map(mixing.row, range(12))):
        assert_close(torch.zeros_like(matrix[0]).index_put((own,), weights.double()), matrix[number])


def test_masked_entries_get_no_gradient_and_can_come_back_while_storage_is_dense():
    mixing = composite(weight(), 0.5)
    mixing.mix(weight(5, 50)).sum().backward()
    assert (mixing.weight.grad[~mixing.mask] == 0).all()
    dropped = (~mixing.mask).nonzero()[0]
    with torch.no_grad():
        mixing.weight[tuple(dropped)] = 100.0
    thinned, kept = with_density(mixing, 0.5)
    assert kept is None
    assert thinned.mask[tuple(dropped)]
    assert thinned.n_entries == 300


def test_a_change_of_density_makes_a_new_mixing_and_leaves_the_old_one_alone():
    masked = composite(weight(), 0.5)
    before = masked.mask.clone()
    thinner, _ = with_density(masked, 0.3)
    assert torch.equal(masked.mask, before)
    assert thinner.weight is masked.weight, "the optimizer of a dense C need not follow"
    sparse, kept = with_density(thinner, 0.009)
    assert isinstance(sparse, Sparse)
    assert kept is None
    values = sparse.values.clone()
    sparser, kept = with_density(sparse, 0.005)
    assert torch.equal(sparse.values, values)
    assert torch.equal(sparser.values, values[kept])
    assert with_density(sparser, 0.005) == (sparser, None), "the same density is the same mixing"


def test_density_falls_step_by_step_through_both_storages():
    ae = BilinearAutoencoder(d_model=6, n_latents=40, n_hidden=80, mixing_density=1.0)
    full = dense_of(ae.mixing)
    for density in (0.5, 0.02, 0.005, 0.001):
        ae.set_mixing_density(density)
        assert ae.mixing_density == pytest.approx(density, rel=0.1)
    assert isinstance(ae.mixing, Sparse)
    largest = full.flatten().abs().topk(3).values.min()
    assert_close(dense_of(ae.mixing), torch.where(full.abs() >= largest, full, 0))


def test_sparse_storage_refuses_to_grow_and_says_why():
    ae = BilinearAutoencoder(d_model=6, n_latents=40, n_hidden=80, mixing_density=0.005)
    before = dense_of(ae.mixing)
    with pytest.raises(ValueError, match=r"density 0.5 exceeds the current 0.005.*cannot come back"):
        ae.set_mixing_density(0.5)
    assert torch.equal(dense_of(ae.mixing), before)
    ae.set_mixing_density(0.005)
    assert torch.equal(dense_of(ae.mixing), before)


@pytest.mark.parametrize("density", [0.2, 0.005])
def test_state_dict_and_precision_follow_the_storage(density):
    ae = BilinearAutoencoder(d_model=6, n_latents=40, n_hidden=80, mixing_density=density)
    twin = BilinearAutoencoder(d_model=6, n_latents=40, n_hidden=80, mixing_density=density, seed=1)
    twin.load_state_dict(ae.state_dict())
    assert torch.equal(dense_of(twin.mixing), dense_of(ae.mixing))
    half = ae.to(torch.bfloat16)
    assert half.mixing.entries()[2].dtype == torch.bfloat16
    assert half.encode(torch.ones(2, 6)).dtype == torch.float32


def test_used_atoms_are_the_columns_with_entries_in_their_order():
    mask = random(5, 9) > 0.3
    mask[:, [0, 4, 8]] = False
    sparse = Sparse(Masked(random(5, 9), mask).entries(), (5, 9))
    assert sparse.used_atoms.tolist() == mask.any(0).nonzero()[:, 0].tolist()
    expected = csr_pattern(*mask[:, sparse.used_atoms].nonzero(as_tuple=True), (5, len(sparse.used_atoms)))
    for got, want in zip(sparse.used_pattern, expected, strict=True):
        assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want


def test_used_atoms_follow_a_loaded_pattern():
    one, other = (composite(random(8, 40, seed=seed), 0.009) for seed in (0, 1))
    before = one.used_atoms
    one.load_state_dict(other.state_dict())
    assert not torch.equal(one.used_atoms, before)
    for got, want in zip(one.used_pattern, other.used_pattern, strict=True):
        assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want


@pytest.mark.parametrize(
    ("shape", "density"),
    [
        ((40, 90), 0.005),
        ((64, 128), 0.009),
        ((50, 70), 0.3),
        ((7, 5), 0.99),
        ((3, 100), 0.001),
        ((30, 10), 0.25),
        ((1, 1), 0.001),
        ((1, 5), 1.0),
    ],
)
def test_a_scattered_mixing_spreads_its_entries_evenly(shape, density):
    mixing = scattered_mixing(shape, density, 0.5, torch.Generator().manual_seed(0))
    n_entries = max(1, round(density * shape[0] * shape[1]))
    rows, columns, values = mixing.entries()
    assert mixing.n_entries == n_entries
    assert isinstance(mixing, Sparse) == (n_entries < SPARSE_BELOW * shape[0] * shape[1])
    by_row, by_column = torch.bincount(rows, minlength=shape[0]), torch.bincount(columns, minlength=shape[1]).float()
    assert by_row.max() - by_row.min() <= 1
    assert (by_column - by_column.mean()).abs().max() <= 1 + 4 * by_column.mean().sqrt()
    norms = mixing.matrix().detach().norm(dim=1)
    torch.testing.assert_close(norms[norms > 0], torch.full_like(norms[norms > 0], 0.5))
    assert n_entries == 1 or values.sign().unique().numel() == 2


def test_latents_of_a_scattered_mixing_start_with_atoms_of_their_own():
    weights = scattered_mixing((50, 150), 0.08, 2.0, torch.Generator().manual_seed(0)).matrix().detach()
    own = weights.view(50, 50, 3).diagonal().mT
    assert own.abs().min() == pytest.approx(2 / (3 * 1.01) ** 0.5, rel=1e-5)
    assert own.abs().max() == pytest.approx(2 / (3 * 1.01) ** 0.5, rel=1e-5)
    assert (own > 0).any()
    assert (own < 0).any()
    assert ((weights != 0).sum(1) == 12).all()
    others = weights.square().sum(1) - own.square().sum(1)
    torch.testing.assert_close(others, torch.full((50,), 4 * 0.01 / 1.01))


def test_rows_of_a_scattered_mixing_are_as_long_as_those_of_the_dense_one():
    for init in ("orthogonal", "xavier"):
        for k, h in ((40, 80), (80, 40)):
            sizes = {"d_model": 4, "n_latents": k, "n_hidden": h, "init": init}
            dense, scattered = (
                BilinearAutoencoder(**sizes, mixing_density=density).mixing.matrix().detach().square().sum(1).mean()
                for density in (1.0, 0.2)
            )
            torch.testing.assert_close(dense, scattered, rtol=0.05, atol=0)


def test_a_dense_mixing_that_is_too_large_is_refused_before_it_is_made():
    sizes = {"d_model": 4, "n_latents": 65_536}
    with pytest.raises(ValueError, match=r"n_hidden=131072 take 32 GiB.* fewer entries \(initial_density=0\.0005"):
        BilinearAutoencoder(**sizes, mixing_density=1.0)
    with pytest.raises(ValueError, match="choose the composite prior"):
        BilinearAutoencoder(**sizes, prior="quadratic")
