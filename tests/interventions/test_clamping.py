"""Clamping: what is missing along the decoder's row is added, at the token's own length, and nothing else."""

import pytest
import torch

from quadric import TopKAutoencoder
from quadric.interventions.latents import clamp
from tests.geometry.linear_dictionary import N_LATENTS, tokens, topk


def test_only_the_latents_own_contribution_changes():
    ae, x = topk(), tokens(20)
    z = ae.encode(ae.prepare(x))
    d = ae.decoder.detach()[3]
    expected = x + (0.7 - z[:, 3:4]).detach() * x.norm(dim=1, keepdim=True) * d
    torch.testing.assert_close(clamp(ae, 3, to=0.7)(x), expected, atol=1e-5, rtol=1e-5)


def test_zero_takes_out_what_the_latent_adds_and_leaves_silent_tokens_alone():
    ae, x = topk(), tokens(200)
    z = ae.encode(ae.prepare(x))[:, 3]
    assert (z == 0).any()
    assert (z > 0).any()
    moved = clamp(ae, 3, to=0.0)(x)
    torch.testing.assert_close(moved[z == 0], x[z == 0], atol=0, rtol=0)
    assert (moved[z > 0] != x[z > 0]).any(1).all()


def test_a_dictionary_of_orthonormal_directions_reads_the_clamped_value_back():
    ae = TopKAutoencoder(d_model=6, n_latents=6, n_active=6).eval()
    with torch.no_grad():
        ae.encoder.copy_(torch.eye(6))
        ae.decoder.copy_(torch.eye(6))
    x = torch.rand(9, 6) + 0.1
    unit = clamp(ae, 2, to=0.4)(x) / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(ae.encode(unit)[:, 2], torch.full((9,), 0.4))


def test_dtype_is_kept_and_mistakes_are_named():
    ae = topk()
    assert clamp(ae, 0, 1.0)(tokens(3).bfloat16()).dtype == torch.bfloat16
    with pytest.raises(IndexError, match="latent 14 is outside 0 … 13"):
        clamp(ae, N_LATENTS, 0.0)
