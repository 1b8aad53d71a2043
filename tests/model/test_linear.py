"""The linear baselines answer the same questions, exactly."""

from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from quadric import BatchTopKAutoencoder, TopKAutoencoder
from quadric.model.linear import Input, at_token_scale, encoder_input, length_of_tokens, token_scale
from quadric.model.objective import prepare_tokens
from tests import naive, zoo

BASELINES = [TopKAutoencoder, BatchTopKAutoencoder]


def make(kind, **arguments):
    return kind(d_model=12, n_latents=40, n_active=5, seed=1, dtype=torch.float64, **arguments)


@pytest.mark.parametrize("kind", BASELINES)
def test_error_is_measured_in_the_product_space(kind):
    ae, x = make(kind), zoo.tokens()
    unit = x / x.norm(dim=-1, keepdim=True)
    reconstruction = ae.decode(ae.encode(unit))
    exact = (naive.lift(unit) - naive.lift(reconstruction)).square().sum((1, 2))
    assert_close(ae.error(x), exact)
    terms = ae.loss(x)
    assert_close(terms.error, exact.mean())
    assert_close(terms.total, (unit - reconstruction).square().sum(-1).mean())
    assert_close(ae.loss(x, alpha=0.5).total, terms.total + 0.5 * terms.density)
    assert_close(terms.density, ae.density(x).mean())


@pytest.mark.parametrize("kind", BASELINES)
def test_density_is_hoyer_of_the_latents(kind):
    ae, x = make(kind), zoo.tokens(100)
    latents = ae.encode(x / x.norm(dim=-1, keepdim=True))
    alive = latents.any(0)
    assert alive.any()
    expected = torch.stack([naive.hoyer(column) for column in latents[:, alive].T])
    assert_close(ae.density(x)[alive], expected)


def test_topk_keeps_the_strongest_of_every_token():
    ae, x = make(TopKAutoencoder), zoo.tokens()
    dense = torch.relu((x - ae.decoder_bias) @ ae.encoder.mT + ae.encoder_bias)
    latents = ae.encode(x)
    assert ((latents != 0).sum(-1) <= 5).all()
    for kept, all_of in zip(latents, dense, strict=True):
        assert_close(kept.sort(descending=True).values[:5], all_of.sort(descending=True).values[:5])


def test_batch_topk_shares_its_budget_over_the_batch():
    ae, x = make(BatchTopKAutoencoder), zoo.tokens()
    per_token = (ae.encode(x) != 0).sum(-1)
    assert per_token.sum() == 5 * len(x)
    assert per_token.min() < 5 < per_token.max()


def test_batch_topk_learns_a_threshold_that_makes_tokens_independent():
    ae, x = make(BatchTopKAutoencoder), zoo.tokens(200)
    with pytest.raises(ValueError, match="no threshold yet"):
        make(BatchTopKAutoencoder).eval().encode(x)
    unit = x / x.norm(dim=-1, keepdim=True)
    ae.loss(x)
    assert ae.threshold.isnan(), "only a training step moves the threshold"
    ae.after_step(ae.step(x))
    weakest = ae.encode(unit)[ae.encode(unit) > 0].min()
    assert_close(ae.threshold, weakest)
    ae.eval()
    assert_close(ae.encode(unit)[:1], ae.encode(unit[:1]), rtol=1e-12, atol=0)
    assert (ae.encode(unit) != 0).sum() == 5 * len(x)


@pytest.mark.parametrize("autoencoder", [TopKAutoencoder, BatchTopKAutoencoder])
def test_repr_is_one_short_line(autoencoder):
    text = repr(autoencoder(d_model=6, n_latents=20, n_active=3))
    assert text == f"{autoencoder.__name__}(d_model=6, n_latents=20, n_active=3)"


@pytest.mark.parametrize("kind", get_args(Input))
def test_a_perfect_reconstruction_comes_back_as_the_token(kind: Input) -> None:
    x = 30 * zoo.tokens(50)
    assert_close(at_token_scale(kind, x, encoder_input(kind, x)), x, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", get_args(Input))
def test_the_scale_is_that_of_a_step(kind: Input) -> None:
    x, read = 30 * zoo.tokens(50), encoder_input(kind, 30 * zoo.tokens(50))
    step = torch.ones_like(x)
    moved = at_token_scale(kind, x, read + step) - at_token_scale(kind, x, read)
    assert_close(moved, token_scale(kind, x) * step)


def test_the_length_that_the_encoder_reads() -> None:
    x = 30 * zoo.tokens(50)
    d = x.shape[1]
    assert [length_of_tokens(kind, d) for kind in get_args(Input)] == [1, None, d**0.5, None]
    for length in (1.0, d**0.5):
        assert_close(prepare_tokens(x, d, x.dtype, length=length).norm(dim=-1), torch.full((50,), length).double())
    assert torch.equal(prepare_tokens(x, d, x.dtype, length=None), x)
    normalized = encoder_input("layer_norm", x)
    assert_close(normalized.mean(-1), torch.zeros(50).double(), rtol=0, atol=1e-12)
    assert_close(normalized.std(-1), torch.ones(50).double(), rtol=1e-3, atol=0)
    for kind in ("own", "unit", "constant_norm"):
        assert encoder_input(kind, x) is x
