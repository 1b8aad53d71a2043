"""The footnote: xᵀAx depends only on ½(A + Aᵀ), which for A = l rᵀ is a signed sum of two rank-1 atoms."""

import torch
from torch.testing import assert_close

from quadric import BilinearAutoencoder
from tests import naive, zoo


def test_latents_do_not_depend_on_the_antisymmetric_part():
    x = zoo.tokens()
    assert_close(zoo.make("atomic").encode(x), zoo.make("atomic printed").encode(x), rtol=0, atol=0)


def test_swapping_left_and_right_changes_nothing():
    ae, x = zoo.make("atomic"), zoo.tokens()
    swapped = zoo.make("atomic")
    swapped.left.data, swapped.right.data = ae.right.data.clone(), ae.left.data.clone()
    assert_close(swapped.loss(x, 0.3), ae.loss(x, 0.3))


def test_an_atom_is_a_difference_of_two_squares():
    """½(l rᵀ + r lᵀ) = ¼((l + r)(l + r)ᵀ − (l − r)(l − r)ᵀ)."""
    ae = zoo.make("atomic")
    for i, (left, right) in enumerate(zip(ae.left.detach(), ae.right.detach(), strict=True)):
        plus, minus = left + right, left - right
        assert_close(ae.form(i), (torch.outer(plus, plus) - torch.outer(minus, minus)) / 4)


def test_the_symmetric_reconstruction_is_never_worse():
    """X is symmetric, so projecting X̂ onto symmetric matrices can only bring it closer, token by token."""
    for seed in range(5):
        sizes = {"d_model": 12, "n_latents": 20, "n_hidden": 30, "prior": "quadratic", "seed": seed}
        symmetric = BilinearAutoencoder(**sizes, dtype=torch.float64)
        printed = BilinearAutoencoder(**sizes, symmetric=False, dtype=torch.float64)
        x = zoo.tokens(seed=seed)
        assert (symmetric.error(x) <= printed.error(x) + 1e-12).all()
        assert (naive.errors(symmetric, x) < naive.errors(printed, x) - 1e-3).any()


def test_the_printed_kernel_adds_the_antisymmetric_part():
    """‖X̂ − X‖² = ‖S − X‖² + ‖T‖², with S and T the symmetric and antisymmetric part of the printed X̂."""
    sizes = {"d_model": 12, "n_latents": 20, "n_hidden": 30, "prior": "quadratic", "seed": 0}
    symmetric = BilinearAutoencoder(**sizes, dtype=torch.float64)
    printed = BilinearAutoencoder(**sizes, symmetric=False, dtype=torch.float64)
    x = torch.nn.functional.normalize(zoo.tokens(), dim=-1)
    z = printed.encode(x)
    lifted = torch.einsum("nk,kde->nde", z, naive.forms(printed))
    antisymmetric = (lifted - lifted.mT) / 2
    assert antisymmetric.abs().max() > 1e-3
    assert_close(printed.error(x) - symmetric.error(x), antisymmetric.square().sum((1, 2)))
