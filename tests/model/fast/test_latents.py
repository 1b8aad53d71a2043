"""Activations, sparse latents, errors and norms against plain autograd: values and all gradients."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import latents
from quadric.model.fast.latents import (
    atom_activations,
    kept_latents,
    latent_errors,
    latent_norms,
    sparse_latents,
    strongest,
)
from quadric.model.objective import density_norms, kernel_error
from quadric.model.products import csr_pattern
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401

MASK = random(5, 9) > 0.3


@DTYPES
@pytest.mark.parametrize(("n", "h"), [(1, 1), (6, 4), (5, 11)])
def test_activations_and_all_three_gradients_match_plain_autograd(n, h, dtype, monkeypatch):
    monkeypatch.setattr(latents, "ATOMS_AT_ONCE", 4)
    inputs = (random(n, 3, dtype=dtype), random(h, 3, dtype=dtype, seed=1), random(h, 3, dtype=dtype, seed=2))
    assert_same(atom_activations, lambda x, left, right: (x @ left.mT) * (x @ right.mT), *inputs)


def test_the_same_factors_get_the_gradients_of_both():
    factor = random(6, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: atom_activations(random(4, 3, seed=1), f, f), factor)


def pattern():
    return csr_pattern(*MASK.nonzero(as_tuple=True), tuple(MASK.shape))


def dense_latents(tokens, left, right, values):
    weight = torch.zeros(MASK.shape, dtype=values.dtype).masked_scatter(MASK, values)
    return ((tokens @ left.mT) * (tokens @ right.mT)) @ weight.mT


def fast_latents(tokens, left, right, values):
    return sparse_latents(tokens, left, right, values, pattern())


@DTYPES
@pytest.mark.parametrize("tokens_at_once", [1, 3, 4, 100])
def test_sparse_latents_and_gradients_match_dense_products(tokens_at_once, dtype, monkeypatch):
    monkeypatch.setattr(latents, "TOKENS_AT_ONCE", tokens_at_once)
    inputs = (random(10, 6), random(9, 6, seed=1), random(9, 6, seed=2), random(int(MASK.sum()), seed=3))
    assert_same(fast_latents, dense_latents, *(each.to(dtype) for each in inputs))


@DTYPES
def test_activations_that_are_computed_again_give_the_same_bits(dtype, monkeypatch):
    inputs = (random(10, 6), random(9, 6, seed=1), random(9, 6, seed=2), random(int(MASK.sum()), seed=3))
    leaves = [each.to(dtype).requires_grad_() for each in inputs]
    found = []
    for most_kept in (0, latents.MOST_KEPT):
        monkeypatch.setattr(latents, "MOST_KEPT", most_kept)
        z = fast_latents(*leaves)
        found.append((z.detach(), *torch.autograd.grad(z.square().sum(), leaves)))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("most_kept", [0, latents.MOST_KEPT])
def test_sparse_latents_of_the_same_factors_and_gradients_match_dense_products(most_kept, monkeypatch):
    monkeypatch.setattr(latents, "MOST_KEPT", most_kept)
    inputs = (random(10, 6), random(9, 6, seed=1), random(int(MASK.sum()), seed=3))
    assert_same(lambda x, a, v: fast_latents(x, a, a, v), lambda x, a, v: dense_latents(x, a, a, v), *inputs)


def plain_error(z, half, kept=None):
    z = z if kept is None else z * kept
    return kernel_error(((z @ (half + half.mT)) * z).sum(-1), z)


@DTYPES
@pytest.mark.parametrize("by_latent", [True, False])
@pytest.mark.parametrize("is_chosen", [True, False])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 10), (40, 7), (30, 64)])
def test_errors_and_norms_match_the_plain_ones(n, k, is_chosen, by_latent, dtype, small_blocks, monkeypatch):  # noqa: F811
    monkeypatch.setattr(latents, "NUMBERS_AT_ONCE", 4 * n)
    z = random(k, n, dtype=dtype).mT if by_latent else random(n, k, dtype=dtype)
    half, offset = random(k, k, dtype=dtype, seed=1) / k, random(k, dtype=dtype, seed=2)
    kept = random(n, k, seed=3) > 0.4 if is_chosen else None
    assert_same(lambda z, m: latent_errors(z, m + m.mT, kept), lambda z, m: plain_error(z, m, kept), z, half)
    assert_same(
        lambda *given: torch.cat(latent_norms(*given)), lambda *given: torch.cat(density_norms(*given)), z, offset
    )


def test_gradcheck_of_errors_and_norms():
    z, half, offset = (each.requires_grad_() for each in (random(4, 5), random(5, 5, seed=1), random(5, seed=2)))
    assert torch.autograd.gradcheck(lambda z, m: latent_errors(z, m + m.mT), (z, half))
    assert torch.autograd.gradcheck(latent_norms, (z, offset))


def test_the_strongest_latents_have_the_largest_terms():
    z, forms = random(20, 6), random(6, 4, seed=1)
    kept = kept_latents(strongest(z, forms.norm(dim=1), 2), 6)
    largest = (z[:, :, None] * forms).norm(dim=-1).topk(2).indices
    assert torch.equal(kept, torch.zeros(20, 6, dtype=torch.bool).scatter(1, largest, True))


def test_a_latent_at_its_offset_has_a_finite_gradient():
    z, offset = torch.full((6, 2), 0.5).requires_grad_(), torch.full((2,), 0.5).requires_grad_()
    norms = torch.cat(latent_norms(z, offset))
    assert norms.tolist() == [0, 0, 0, 0]
    assert all((grad == 0).all() for grad in torch.autograd.grad(norms.sum(), (z, offset)))


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
