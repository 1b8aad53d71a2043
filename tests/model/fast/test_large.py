"""The overlap of sampled latents: exact if all are in the sample, and right on average if not."""

import pytest
import torch
from torch.testing import assert_close

from quadric.model.fast import large
from quadric.model.fast.kernel import atom_gram, kernel_overlap
from quadric.model.fast.large import sampled_latents, sampled_overlap
from quadric.model.fast.lifted import SparseRows
from quadric.model.fast.products import csr_pattern
from tests.exactness import assert_same, random

# Latents of very different lengths, two of them empty, and atoms that resemble each other.
MASK = random(12, 14) > torch.linspace(-3, 2, 12)[:, None]
MASK[[5, -1]] = False
PATTERN = csr_pattern(*MASK.nonzero(as_tuple=True), (12, 14))
INPUTS = random(14, 3, seed=1).abs(), random(14, 3, seed=2).abs(), random(int(MASK.sum()), seed=3).abs()


def exact(left, right, values):
    mixing = torch.zeros(MASK.shape, dtype=values.dtype).masked_scatter(MASK, values)
    return kernel_overlap(mixing @ atom_gram(left, right) @ mixing.mT)[None]


def estimate(left, right, values, seed=0):
    return sampled_overlap(left, right, SparseRows(values, PATTERN), True, seed=seed)[None]


def test_with_all_latents_in_the_sample_it_is_exact_with_its_gradients():
    assert sampled_latents(PATTERN, 0).tolist() == list(range(12))
    assert_same(estimate, exact, *INPUTS)
    left, _, values = INPUTS
    assert_same(lambda a, v: estimate(a, a, v), lambda a, v: exact(a, a, v), left, values)


@pytest.mark.parametrize("entries", [1, 20, 60])
def test_a_sample_is_right_on_average(entries, monkeypatch):
    monkeypatch.setattr(large, "SAMPLED_ENTRIES", entries)
    n_seeds = 300
    found = torch.cat([estimate(*INPUTS, seed=seed) for seed in range(n_seeds)])
    assert len(sampled_latents(PATTERN, 0)) < 12
    assert (found.mean() - exact(*INPUTS)).abs() < 4 * found.std() / n_seeds**0.5
    assert_close(estimate(*INPUTS, seed=3), estimate(*INPUTS, seed=3), rtol=0, atol=0)


def test_a_single_latent_has_nothing_to_resemble():
    pattern = csr_pattern(torch.tensor([0, 0]), torch.tensor([0, 2]), (1, 3))
    leaves = [random(3, 2, seed=1).requires_grad_(), random(2, seed=2).requires_grad_()]
    overlap = sampled_overlap(leaves[0], leaves[0], SparseRows(leaves[1], pattern), True, seed=0)
    assert overlap == 0
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(overlap, leaves))
