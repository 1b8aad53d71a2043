"""A latent on its own axes: the same z as the dictionary's, about every centre, and the gradient of it."""

import pytest
import torch

from quadric import BilinearAutoencoder
from quadric.interventions.axes import latent_axes
from tests import zoo
from tests.geometry.centred import SETTINGS, centre_for

UNIT = torch.nn.functional.normalize(zoo.tokens(), dim=1)


@pytest.mark.parametrize(("variety", "where"), SETTINGS)
def test_value_and_gradient_are_those_of_the_dictionary(variety, where):
    ae = zoo.make(variety)
    axes = latent_axes(ae, 5, centre_for(where))
    placed = axes.place(UNIT)
    torch.testing.assert_close(placed.value, ae.encode(UNIT)[:, 5].detach())
    torch.testing.assert_close(axes.basis.mT @ axes.basis, torch.eye(axes.basis.shape[1]).double())
    steps = torch.randn(30, axes.basis.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = ae_value(ae, UNIT + steps @ axes.basis.mT, 5)
    rise = (placed.gradient * steps + axes.eigenvalues * steps.square()).sum(-1)
    torch.testing.assert_close(moved - placed.value, rise)


def ae_value(ae: BilinearAutoencoder, u: torch.Tensor, latent: int) -> torch.Tensor:
    """z of vectors at their own scale, from the materialized form."""
    if ae.lens.kind == "affine":
        constant = ae.lens.constant.expand(len(u), 1)
        u = torch.cat([u - ae.lens.centre, constant], dim=1)
    return ((u @ ae.form(latent)) * u).sum(-1)


def test_a_linear_part_outside_the_eigenvectors_is_an_axis_of_its_own():
    """Two atoms whose quadratic parts cancel, and one atom beside them."""
    ae = zoo.make("composite dense storage")
    linear = BilinearAutoencoder(
        d_model=12, n_latents=1, n_hidden=2, prior="quadratic", lens=zoo.affine_lens(), dtype=torch.float64
    )
    with torch.no_grad():
        linear.left.zero_()
        linear.right.zero_()
        linear.left[0, 3] = linear.right[0, 3] = 1  # v₃²
        linear.left[1, 7] = linear.right[1, 12] = 1  # c·v₇
        linear.mixing.weight.fill_(2.0)
    axes = latent_axes(linear, 0)
    assert axes.eigenvalues.tolist() == [2.0, 0.0]
    assert torch.equal(axes.basis, torch.eye(12).double()[:, [3, 7]])
    assert latent_axes(ae, 0).eigenvalues.all()


def test_a_tolerance_leaves_out_weak_axes_but_not_their_value():
    ae = zoo.make("quadratic")
    whole, some = latent_axes(ae, 2), latent_axes(ae, 2, tolerance=0.4)
    assert 0 < len(some.eigenvalues) < len(whole.eigenvalues)
    assert torch.equal(some.basis, whole.basis[:, : len(some.eigenvalues)])
    torch.testing.assert_close(some.place(UNIT).value, whole.place(UNIT).value)


@pytest.mark.parametrize("latent", [-1, 24, True])
def test_an_index_outside_the_dictionary(latent):
    with pytest.raises(IndexError, match=r"outside 0 … 23"):
        latent_axes(zoo.make("atomic"), latent)
