"""The three priors as constraints on C."""

import pytest
import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from quadric.autoencoders.mixing import SPARSE_BELOW, Composite, Quadratic


def weight(k: int = 12, h: int = 50) -> torch.Tensor:
    return torch.randn(k, h, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def dense_of(mixing: Composite) -> torch.Tensor:
    rows, columns, values = mixing.entries()
    matrix = torch.zeros(mixing.shape, dtype=values.dtype)
    matrix[rows, columns] = values
    return matrix


@pytest.mark.parametrize("density", [1.0, 0.3, SPARSE_BELOW, SPARSE_BELOW * 0.9, 1e-6])
def test_composite_keeps_exactly_the_globally_largest(density):
    full = weight()
    mixing = Composite(full.clone(), density)
    kept = max(1, round(density * full.numel()))
    smallest_kept = full.abs().flatten().sort(descending=True).values[kept - 1]
    assert mixing.n_entries == kept
    assert_close(dense_of(mixing), torch.where(full.abs() >= smallest_kept, full, 0))


def test_ties_do_not_let_more_through():
    mixing = Composite(torch.ones(10, 10), 0.25)
    assert mixing.n_entries == 25


@pytest.mark.parametrize("density", [0.2, SPARSE_BELOW * 0.9])
def test_composite_answers_as_the_dense_matrix_does(density):
    mixing = Composite(weight(), density)
    same = Quadratic(dense_of(mixing))
    gram = weight(50, 50)
    gram = gram + gram.mT
    atoms, latents = weight(5, 50), weight(5, 12)
    assert_close(mixing.mix(atoms), same.mix(atoms))
    assert_close(mixing.unmix(latents), same.unmix(latents))
    assert_close(mixing.kernel(gram), same.kernel(gram))
    for i in range(12):
        row = mixing.row(i)
        assert_close(torch.zeros(50, dtype=torch.float64).index_put((row.atoms,), row.weights), same.weight.data[i])


def test_masked_entries_get_no_gradient_and_can_come_back_while_storage_is_dense():
    mixing = Composite(weight(), 0.5)
    mixing.mix(weight(5, 50)).sum().backward()
    assert (mixing.weight.grad[~mixing.mask] == 0).all()
    dropped = (~mixing.mask).nonzero()[0]
    with torch.no_grad():
        mixing.weight[tuple(dropped)] = 100.0
    mixing.keep_largest(0.5)
    assert mixing.mask[tuple(dropped)]
    assert mixing.n_entries == 300


def test_density_falls_step_by_step_through_both_storages():
    ae = BilinearAutoencoder(d_model=6, n_latents=40, n_hidden=80, mixing_density=1.0)
    full = dense_of(ae.mixing)
    for density in (0.5, 0.02, 0.005, 0.001):
        ae.set_mixing_density(density)
        assert ae.mixing_density == pytest.approx(density, rel=0.1)
        assert ae.architecture.mixing_density == ae.mixing_density
    assert ae.mixing.is_sparse
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
