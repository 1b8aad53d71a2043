"""Encoding and decoding in two calls gives what `encode` and `rebuild` give in one."""

import pytest
import torch

from quadric.interop.carried import check_carried, decode, encode, is_linear, linear_decoder
from quadric.model import Autoencoder
from tests.interop.dictionaries import AFFINE, BILINEAR, LINEAR, bilinear, linear, tokens

EVERY = [*BILINEAR, *LINEAR]


def make(name: str) -> Autoencoder:
    return linear(name) if name in LINEAR else bilinear(name)


@pytest.mark.parametrize("name", EVERY)
def test_two_calls_rebuild_every_token_at_its_own_length(name: str) -> None:
    autoencoder, x = make(name), tokens(3, 5)
    flat = x.reshape(-1, x.shape[-1])
    latents, carried = encode(autoencoder, x)
    assert latents.shape == (3, 5, autoencoder.n_latents)
    torch.testing.assert_close(latents.flatten(0, 1), autoencoder.encode(autoencoder.prepare(flat)))
    rebuilt = decode(autoencoder, latents, carried)
    torch.testing.assert_close(rebuilt.flatten(0, 1), autoencoder.rebuild(flat), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*AFFINE, "topk"])
def test_the_decoder_is_linear(name: str) -> None:
    autoencoder, x = make(name), tokens(8)
    latents, carried = encode(autoencoder, x)
    rows, bias = linear_decoder(autoencoder)
    expected = (latents.double() @ rows + bias) * carried.lengths
    torch.testing.assert_close(expected.float(), autoencoder.rebuild(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variety", AFFINE)
def test_rows_of_the_decoder_are_the_linear_parts_of_the_forms(variety: str) -> None:
    autoencoder = bilinear(variety)
    rows, bias = linear_decoder(autoencoder)
    for latent in (0, 7):
        form = autoencoder.form(latent).double()  # type: ignore[operator]
        torch.testing.assert_close(rows[latent], form[:-1, -1] / autoencoder.lens.constant.double())  # type: ignore[union-attr]
    torch.testing.assert_close(bias.float(), autoencoder.lens.centre)  # type: ignore[union-attr]


def test_only_forms_without_a_lens_have_no_linear_decoder() -> None:
    assert [name for name in EVERY if not is_linear(make(name))] == ["atomic", "composite sparse storage", "quadratic"]


def test_gradients_flow_to_latents_with_a_lens() -> None:
    latents, carried = encode(bilinear("atomic affine"), tokens(4))
    latents = latents.detach().requires_grad_()
    decode(bilinear("atomic affine"), latents, carried).sum().backward()
    assert latents.grad is not None
    assert latents.grad.abs().sum() > 0


def test_a_length_is_never_guessed() -> None:
    latents, carried = encode(bilinear("atomic affine"), tokens(4, 3))
    with pytest.raises(ValueError, match=r"decode was called without encode before it.*do this"):
        check_carried(None, latents, "do this")
    with pytest.raises(ValueError, match=r"latents of \(4,\) tokens, but \(4, 3\) were encoded last"):
        check_carried(carried, latents[:, 0], "do this")
    assert check_carried(carried, latents, "do this") is carried


def test_tokens_that_are_zero_are_refused() -> None:
    x = tokens(3)
    x[1] = 0
    with pytest.raises(ValueError, match="token 1 is all zero"):
        encode(bilinear("atomic"), x)
