"""Definitions 1 to 4: the linear, quadratic, atomic and composite representation hypotheses, and that they nest."""

import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder, TopKAutoencoder
from tests import naive, zoo


def set_parameters(ae, **values):
    with torch.no_grad():
        for name, value in values.items():
            ae.get_parameter(name).copy_(value)
    return ae


def test_linear_hypothesis_data_is_rebuilt_by_its_own_dictionary():
    """x = Σ z_i w_i with orthonormal w_i: a TopK autoencoder holding the w_i has no error."""
    directions = torch.eye(6, dtype=torch.float64)
    ae = TopKAutoencoder(d_model=6, n_latents=6, n_active=2, dtype=torch.float64)
    set_parameters(ae, encoder=directions, decoder=directions)
    x = torch.zeros(5, 6, dtype=torch.float64)
    x[:, 1], x[:, 4] = 2.0, torch.arange(1, 6)
    assert_close(ae.error(x), torch.zeros(5, dtype=torch.float64))


def test_quadratic_hypothesis_data_is_rebuilt_by_its_own_dictionary():
    """xxᵀ = Σ z_i W_i over an orthonormal basis of symmetric matrices: no error, for any x."""
    d = 4
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    ae = BilinearAutoencoder(d_model=d, n_latents=len(pairs), prior="atomic", dtype=torch.float64)
    eye = torch.eye(d, dtype=torch.float64)
    left = torch.stack([eye[i] for i, _ in pairs])
    right = torch.stack([eye[j] * (1 if i == j else 2**0.5) for i, j in pairs])
    set_parameters(ae, left=left, right=right)
    x = zoo.tokens(20, d)
    assert_close(ae.error(x), torch.zeros(20, dtype=torch.float64), atol=1e-12, rtol=0)
    assert_close(ae.reconstruct(x), naive.lift(x))


def test_atomic_forms_are_single_atoms():
    """W_i = w_i w_iᵀ when L = R, and the symmetric part of l_i r_iᵀ, of rank at most 2, otherwise."""
    squares, free = zoo.make("atomic same factors"), zoo.make("atomic")
    for i in range(squares.n_latents):
        assert_close(squares.form(i), torch.outer(squares.left[i], squares.left[i]).detach())
        assert torch.linalg.matrix_rank(free.form(i)) == 2


def test_composite_forms_are_sparse_mixtures_over_shared_atoms():
    """W_i = Σ_{j ∈ supp(c_i)} C_ij w_j w_jᵀ, with one global budget that rows share unevenly."""
    ae = zoo.make("composite sparse same factors")
    sizes = []
    for i in range(ae.n_latents):
        atoms, weights = ae.mixing.row(i)
        sizes.append(len(atoms))
        expected = sum(
            (c * torch.outer(ae.left[j], ae.left[j]) for j, c in zip(atoms, weights, strict=True)),
            torch.zeros(ae.d_model, ae.d_model, dtype=torch.float64),
        )
        assert_close(ae.form(i), expected.detach())
    assert sum(sizes) == round(0.009 * ae.n_latents * ae.n_hidden)
    assert min(sizes) < max(sizes)


def test_the_hypotheses_nest():
    """Atomic is the composite whose C is a scaled identity; composite is the quadratic whose C is sparse."""
    x = zoo.tokens()
    atomic = zoo.make("atomic")
    composite = BilinearAutoencoder(d_model=12, n_latents=24, n_hidden=24, mixing_density=1.0, dtype=torch.float64)
    quadratic = BilinearAutoencoder(d_model=12, n_latents=24, n_hidden=24, prior="quadratic", dtype=torch.float64)
    for ae in (composite, quadratic):
        set_parameters(ae, left=atomic.left, right=atomic.right, **{"mixing.weight": torch.eye(24)})
    composite.set_mixing_density(1 / 24)
    assert_close(composite.error(x), atomic.error(x))
    assert_close(quadratic.error(x), atomic.error(x))
