"""The pure functions of the objective: gradients, Hoyer's edge cases, the correction's accuracy."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model import BilinearAutoencoder, Overlap
from quadric.model.objective import (
    density_from_norms,
    hoyer_density,
    product_space_error,
)
from tests import naive


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", [0.0, 0.7, -1e-12, 1e-25])
@pytest.mark.parametrize("n", [1, 2, 100])
def test_constant_latents_are_uniform_with_finite_gradients(values, n, dtype):
    latents = torch.full((n, 3), values, dtype=dtype, requires_grad=True)
    for offset in (torch.zeros(3, dtype=dtype), torch.full((3,), values, dtype=dtype)):
        offset = offset.clone().requires_grad_()
        density = hoyer_density(latents, offset)
        assert_close(density, torch.full_like(density, 0.0 if n == 1 else 1.0), atol=1e-5, rtol=0)
        for gradient in torch.autograd.grad(density.sum(), (latents, offset)):
            assert gradient.isfinite().all()


def test_hoyer_gradient():
    inputs = (random(7, 3).requires_grad_(), random(3, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(hoyer_density, inputs)


def test_density_from_norms_adds_up_across_shards():
    latents = random(12, 4)
    shards = latents[:5], latents[5:]
    l1 = sum(shard.abs().sum(0) for shard in shards)
    l2_squared = sum(shard.square().sum(0) for shard in shards)
    assert_close(density_from_norms(l1, l2_squared, 12), hoyer_density(latents))


def test_product_space_error_stays_accurate_where_the_printed_form_cancels():
    x = torch.nn.functional.normalize(random(50, 64), dim=-1)
    reconstruction = x + 1e-5 * random(50, 64, seed=1)
    exact = (naive.lift(x) - naive.lift(reconstruction)).square().sum((1, 2))
    single, rough = x.float(), reconstruction.float()
    ours = product_space_error(single, rough).double()
    printed = (1 + rough.square().sum(-1) ** 2 - 2 * (single * rough).sum(-1) ** 2).double()
    assert_close(ours, exact, rtol=1e-2, atol=0)
    assert ((printed - exact).abs() / exact).max() > 0.5, "the printed form has become stable; use it"


def test_copies_of_a_sparse_latent_lower_the_loss_at_the_same_error():
    """Why training makes copies: the error depends on Σ W_i ⊗ W_i alone, in which W may be split into two of W/√2, and
    the density counts every latent alike, whatever its size. The overlap takes the gain away."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator, dtype=torch.float64) * torch.tensor([0.2, 0.2, 1.0, 1.0])
    x[:20, 0] += 3  # the first direction is sparse, the third is not
    ae = BilinearAutoencoder(d_model=4, n_latents=2, prior="atomic", same_factors=True, dtype=torch.float64)
    split = BilinearAutoencoder(d_model=4, n_latents=3, prior="atomic", same_factors=True, dtype=torch.float64)
    with torch.no_grad():
        ae.left.copy_(torch.eye(4)[[0, 2]])
        split.left.copy_(torch.eye(4)[[0, 0, 2]] * torch.tensor([2**-0.25, 2**-0.25, 1.0])[:, None])
    before, after = ae.loss(x, 0.3), split.loss(x, 0.3)
    assert_close(after.error, before.error)
    assert after.density < before.density
    assert after.total < before.total
    overlaps = [Overlap()(each.step(x)) for each in (split, ae)]
    assert after.total + 0.3 * overlaps[0] > before.total + 0.3 * overlaps[1]
