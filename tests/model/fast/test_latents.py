"""Which latents are the strongest, and what hand-written errors save; values and gradients are in test_step."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import latents
from quadric.model.fast.latents import kept_latents, latent_errors, sparse_latents, strongest
from quadric.model.fast.products import csr_pattern
from tests.exactness import DTYPES, random


@DTYPES
def test_activations_that_are_computed_again_give_the_same_bits(dtype, monkeypatch):
    mask = random(5, 9) > 0.3
    inputs = (random(10, 6), random(9, 6, seed=1), random(9, 6, seed=2), random(int(mask.sum()), seed=3))
    leaves = [each.to(dtype).requires_grad_() for each in inputs]
    pattern, found = csr_pattern(*mask.nonzero(as_tuple=True), tuple(mask.shape)), []
    for most_kept in (0, latents.MOST_KEPT):
        monkeypatch.setattr(latents, "MOST_KEPT", most_kept)
        z = sparse_latents(*leaves, pattern)
        found.append((z.detach(), *torch.autograd.grad(z.square().sum(), leaves)))
    assert all(map(torch.equal, *found))


def test_the_strongest_latents_have_the_largest_terms():
    z, forms = random(20, 6), random(6, 4, seed=1)
    kept = kept_latents(strongest(z, forms.norm(dim=1), 2), 6)
    largest = (z[:, :, None] * forms).norm(dim=-1).topk(2).indices
    assert torch.equal(kept, torch.zeros(20, 6, dtype=torch.bool).scatter(1, largest, True))


@pytest.mark.parametrize(
    ("error", "kernel_needs_gradient", "products"),
    [
        (latent_errors, True, 2),
        (latent_errors, False, 1),  # what is not needed is not computed
        (lambda z, kernel: ((z @ kernel) * z).sum(-1), True, 3),
    ],
)
def test_the_error_multiplies_twice_where_plain_autograd_multiplies_three_times(error, kernel_needs_gradient, products):
    z, kernel = random(64, 32).requires_grad_(), random(32, 32, seed=1)
    kernel = (kernel + kernel.mT).requires_grad_(kernel_needs_gradient)
    with FlopCounterMode(display=False) as counter:
        error(z, kernel).sum().backward()
    assert counter.get_total_flops() // (2 * 64 * 32 * 32) == products
