"""Activations, sparse latents and the sums over latents against plain autograd: values and all gradients."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from quadric.model.fast import latents
from quadric.model.fast.latents import (
    atom_activations,
    kept_latents,
    latent_norms,
    latent_sums,
    sparse_latents,
    strongest,
)
from quadric.model.products import csr_pattern
from quadric.model.objective import density_norms, kernel_error
from tests.exactness import DTYPES, assert_same, random, small_blocks  # noqa: F401

MASK = random(5, 9) > 0.3


@DTYPES
@pytest.mark.parametrize(("n", "h"), [(1, 1), (6, 4), (5, 11)])
def test_activations_and_all_three_gradients_match_plain_autograd(n, h, dtype, monkeypatch):
    monkeypatch.setattr(latents, "ATOMS_AT_ONCE", 4)
    inputs = (random(n, 3, dtype=dtype), random(h, 3, dtype=dtype, seed=1), random(h, 3, dtype=dtype, seed=2))
    assert_same(atom_activations, lambda x, left, right: (x @ left.mT) * (x @ right.mT), *inputs)


def test_tied_factors_get_the_gradients_of_both():
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
def test_tied_sparse_latents_and_gradients_match_dense_products(most_kept, monkeypatch):
    monkeypatch.setattr(latents, "MOST_KEPT", most_kept)
    inputs = (random(10, 6), random(9, 6, seed=1), random(int(MASK.sum()), seed=3))
    assert_same(lambda x, a, v: fast_latents(x, a, a, v), lambda x, a, v: dense_latents(x, a, a, v), *inputs)


def together(z, half, offset):
    sums = latent_sums(z, half + half.mT, offset)
    return torch.cat(list(sums))


def apart(z, half, offset):
    quadratic = ((z @ (half + half.mT)) * z).sum(-1)
    return torch.cat([kernel_error(quadratic, z), *density_norms(z, offset)])


@DTYPES
@pytest.mark.parametrize("by_latent", [True, False])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 10), (40, 7), (30, 64)])
def test_sums_and_gradients_match_the_separate_functions(n, k, by_latent, dtype, small_blocks, monkeypatch):  # noqa: F811
    monkeypatch.setattr(latents, "NUMBERS_AT_ONCE", 4 * n)
    z = random(k, n, dtype=dtype).mT if by_latent else random(n, k, dtype=dtype)
    inputs = (z, random(k, k, dtype=dtype, seed=1) / k, random(k, dtype=dtype, seed=2))
    assert_same(together, apart, *inputs)


@DTYPES
@pytest.mark.parametrize("by_latent", [True, False])
def test_only_kept_latents_make_the_error_and_all_make_the_norms(by_latent, dtype, monkeypatch):
    monkeypatch.setattr(latents, "NUMBERS_AT_ONCE", 90)
    z = random(17, 30, dtype=dtype).mT if by_latent else random(30, 17, dtype=dtype)
    kept = random(30, 17, seed=3) > 0.4

    def ours(z, half, offset):
        return torch.cat(list(latent_sums(z, half + half.mT, offset, kept)))

    def separate(z, half, offset):
        error = apart(z * kept, half, offset)[: len(z)]
        return torch.cat([error, *density_norms(z, offset)])

    assert_same(ours, separate, z, random(17, 17, dtype=dtype, seed=1) / 17, random(17, dtype=dtype, seed=2))


def test_the_strongest_latents_have_the_largest_terms():
    z, forms = random(20, 6), random(6, 4, seed=1)
    kept = kept_latents(strongest(z, forms.norm(dim=1), 2), 6)
    terms = (z[:, :, None] * forms).norm(dim=-1)
    assert (kept.sum(-1) == 2).all()
    assert all(
        set(row.nonzero()[:, 0].tolist()) == set(term.argsort()[-2:].tolist())
        for row, term in zip(kept, terms, strict=True)
    )


@DTYPES
def test_norms_alone_are_those_of_the_sums(dtype, monkeypatch):
    monkeypatch.setattr(latents, "NUMBERS_AT_ONCE", 64)

    def ours(z, offset):
        return torch.cat(list(latent_norms(z, offset)))

    def separate(z, offset):
        return torch.cat(list(density_norms(z, offset)))

    assert_same(ours, separate, random(30, 17, dtype=dtype), random(17, dtype=dtype, seed=2))


def test_gradcheck_of_the_sums():
    inputs = [random(4, 5), random(5, 5, seed=1), random(5, seed=2)]
    assert torch.autograd.gradcheck(together, [value.requires_grad_() for value in inputs])


def test_a_latent_at_its_offset_has_a_finite_gradient():
    z, offset = torch.full((6, 2), 0.5).requires_grad_(), torch.full((2,), 0.5).requires_grad_()
    sums = latent_sums(z, torch.eye(2), offset)
    assert sums.l1.tolist() == sums.l2_squared.tolist() == [0, 0]
    for grad in torch.autograd.grad(sums.l1.sum() + sums.l2_squared.sum(), (z, offset)):
        assert (grad == 0).all()


def flops_of_the_error(error, kernel_needs_gradient: bool) -> int:
    z, kernel = random(64, 32).requires_grad_(), random(32, 32, seed=1)
    kernel = (kernel + kernel.mT).requires_grad_(kernel_needs_gradient)
    with FlopCounterMode(display=False) as counter:
        error(z, kernel).sum().backward()
    return counter.get_total_flops() // (2 * 64 * 32 * 32)


def test_the_error_multiplies_twice_where_plain_autograd_multiplies_three_times():
    assert flops_of_the_error(lambda z, kernel: latent_sums(z, kernel, torch.zeros(32).double()).error, True) == 2
    assert flops_of_the_error(lambda z, kernel: ((z @ kernel) * z).sum(-1), True) == 3


def test_a_kernel_gradient_that_is_not_needed_is_not_computed():
    assert flops_of_the_error(lambda z, kernel: latent_sums(z, kernel, torch.zeros(32).double()).error, False) == 1
