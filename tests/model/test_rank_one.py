"""The leading eigenpair, found without X̂, against the one of X̂."""

import pytest
import torch

import quadric
from quadric.model.rank_one import leading_eigenpairs, rank_one_vectors


def dense_form(left, right, weights):
    lifted = torch.einsum("nh,hd,he->nde", weights, left, right)
    return (lifted + lifted.mT) / 2


def parts(seed, n=7, d=12, h=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((h, d), (h, d), (n, h), (n, d))]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [1, 2, 12, 60])
def test_it_is_the_algebraically_largest_eigenpair(seed, d):
    left, right, weights, start = parts(seed, d=d)
    pairs = leading_eigenpairs(left, right, weights, start)
    form = dense_form(left, right, weights)
    values, vectors = torch.linalg.eigh(form)
    scale = values.abs().amax(-1)
    assert torch.allclose(pairs.values / scale, values[:, -1] / scale, atol=1e-6)
    assert torch.allclose((pairs.vectors * vectors[:, :, -1]).sum(-1).abs(), torch.ones(7).double(), atol=1e-4)


def test_a_start_that_is_another_eigenvector_does_not_mislead():
    left, right, weights, _ = parts(0)
    values, vectors = torch.linalg.eigh(dense_form(left, right, weights))
    pairs = leading_eigenpairs(left, right, weights, vectors[:, :, 3].contiguous())
    assert torch.allclose(pairs.values, values[:, -1], rtol=1e-6)


def test_where_nothing_is_positive_the_vector_is_zero():
    left, _, weights, tokens = parts(1)
    pairs = leading_eigenpairs(left, left, -weights.abs(), tokens)  # −Σ|a| l lᵀ, and h > d: negative definite
    assert bool((pairs.values < 0).all())
    assert bool((rank_one_vectors(pairs, tokens) == 0).all())


@pytest.mark.parametrize("prior", ["atomic", "composite", "quadratic"])
def test_rebuilding_a_token_agrees_with_the_materialized_form(prior):
    density = {"mixing_density": 0.2} if prior == "composite" else {}
    ae = quadric.BilinearAutoencoder(d_model=10, n_latents=30, prior=prior, seed=1, **density)
    tokens = torch.randn(40, 10, generator=torch.Generator().manual_seed(0)) * 7
    unit = tokens / tokens.norm(dim=-1, keepdim=True)
    values, vectors = torch.linalg.eigh(ae.reconstruct(unit))
    expected = values[:, -1:].clamp_min(0).sqrt() * vectors[:, :, -1]
    expected = expected * torch.where((expected * tokens).sum(-1, keepdim=True) < 0, -1.0, 1.0)
    expected = expected * tokens.norm(dim=-1, keepdim=True)
    gap = values[:, -1] - values[:, -2] > 0.02 * values.abs().amax(-1)  # else two vectors answer equally well
    assert gap.sum() > 25
    rebuilt = ae.rebuild(tokens)
    assert torch.allclose(rebuilt[gap], expected[gap], atol=0.02 * 7)
    assert bool(((rebuilt * tokens).sum(-1) >= 0).all())


def test_a_perfect_dictionary_rebuilds_the_token_itself():
    # Atoms that span all symmetric forms of a plane, orthonormal: X̂ = X.
    ae = quadric.BilinearAutoencoder(d_model=2, n_latents=3, prior="atomic")
    half = 0.5**0.5
    with torch.no_grad():
        ae.left.copy_(torch.tensor([[1.0, 0], [0, 1], [1, 0]]))
        ae.right.copy_(torch.tensor([[1.0, 0], [0, 1], [0, 2 * half]]))
    tokens = torch.randn(20, 2, generator=torch.Generator().manual_seed(3)) * 5
    assert torch.allclose(ae.error(tokens), torch.zeros(20), atol=1e-5)
    assert torch.allclose(ae.rebuild(tokens), tokens, atol=1e-3)


def test_a_linear_autoencoder_rebuilds_at_the_tokens_own_length():
    ae = quadric.TopKAutoencoder(d_model=6, n_latents=9, n_active=3)
    tokens = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ae.rebuild(3 * tokens), 3 * ae.rebuild(tokens), atol=1e-5)
