"""Error and density norms in one pass against the separate functions."""

import pytest
import torch

from quadric.autoencoders.kernels import sums as module
from quadric.autoencoders.kernels.sums import latent_sums
from quadric.autoencoders.objective import density_norms, kernel_error
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401


def together(latents, half, offset):
    sums = latent_sums(latents, half + half.mT, offset)
    return torch.cat(list(sums))


def apart(latents, half, offset):
    quadratic = ((latents @ (half + half.mT)) * latents).sum(-1)
    return torch.cat([kernel_error(quadratic, latents), *density_norms(latents, offset)])


@DTYPES
@pytest.mark.parametrize("by_latent", [True, False])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 10), (40, 7), (30, 64)])
def test_values_and_gradients_match_the_separate_functions(n, k, by_latent, dtype, small_blocks, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 4 * n)
    latents = random(k, n, dtype=dtype).mT if by_latent else random(n, k, dtype=dtype)
    inputs = (latents, random(k, k, dtype=dtype, seed=1) / k, random(k, dtype=dtype, seed=2))
    assert_same(together, apart, *inputs)


def test_gradcheck():
    inputs = [random(4, 5), random(5, 5, seed=1), random(5, seed=2)]
    assert torch.autograd.gradcheck(together, [value.requires_grad_() for value in inputs])


def test_a_latent_at_its_offset_has_a_finite_gradient():
    latents, offset = torch.full((6, 2), 0.5).requires_grad_(), torch.full((2,), 0.5).requires_grad_()
    sums = latent_sums(latents, torch.eye(2), offset)
    assert sums.l1.tolist() == sums.l2_squared.tolist() == [0, 0]
    for grad in torch.autograd.grad(sums.l1.sum() + sums.l2_squared.sum(), (latents, offset)):
        assert (grad == 0).all()
