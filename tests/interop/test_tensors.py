"""A dictionary from plain tensors: three ways to keep latents, four ways to read a token, every mistake in one line."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

import quadric
from quadric.model import JumpReLUAutoencoder, ReLUAutoencoder
from tests.interop.foreign_folders import D, K, tokens


def matrices() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {name: torch.randn(K, D, generator=generator) for name in ("encoder", "decoder")}


def test_what_is_kept() -> None:
    given, x = matrices(), tokens()
    pre = x @ given["encoder"].T
    assert_close(quadric.linear_dictionary(**given).encode(x), pre.relu())
    assert_close(quadric.linear_dictionary(**given, threshold=3.0).encode(x), torch.where(pre > 3, pre, 0))
    thresholds = torch.linspace(-5, 50, K)
    kept = torch.where(pre > thresholds, pre.relu(), 0)
    assert_close(quadric.linear_dictionary(**given, threshold=thresholds).encode(x), kept)
    assert (quadric.linear_dictionary(**given, n_active=4).encode(x) > 0).sum(-1).tolist() == [4] * len(x)


def test_the_tensors_are_copies() -> None:
    given, x = matrices(), tokens()
    ae = quadric.linear_dictionary(**given)
    before = ae.encode(x)
    given["encoder"].zero_()
    assert torch.equal(ae.encode(x), before)


def test_what_is_read_of_a_token() -> None:
    given, x = matrices(), tokens()
    lengths = x.norm(dim=-1, keepdim=True)
    own = quadric.linear_dictionary(**given, input="own")
    unit = quadric.linear_dictionary(**given, input="unit")
    constant = quadric.linear_dictionary(**given, input="constant_norm")
    assert torch.equal(own.prepare(x), x)
    assert_close(unit.prepare(x), x / lengths)
    assert_close(unit.encode(unit.prepare(x)) * lengths, own.encode(x), rtol=1e-4, atol=1e-4)
    assert_close(constant.prepare(x), x * D**0.5 / lengths)
    assert_close(constant.encode(constant.prepare(x)) * lengths / D**0.5, own.encode(x), rtol=1e-4, atol=1e-4)
    # Without biases the three are one function, whatever the length of the token.
    for ae in (unit, constant):
        assert_close(ae.rebuild(x), own.rebuild(x), rtol=1e-4, atol=1e-3)
        assert_close(ae.error(x), own.error(x), rtol=1e-4, atol=1e-3)


def test_it_saves_and_comes_back(tmp_path) -> None:
    bias = {"encoder_bias": torch.ones(K), "decoder_bias": torch.full((D,), 3.0)}
    for number, settings in enumerate(({}, {"threshold": 2.0}, {"n_active": 3})):
        ae = quadric.linear_dictionary(
            **matrices(), **bias, **settings, input="layer_norm", subtract_decoder_bias=False, hook_point="resid_pre.3"
        )
        ae.save_pretrained(tmp_path / str(number))
        back = quadric.load(tmp_path / str(number))
        assert type(back) is type(ae)
        assert (back.settings, back.provenance) == (ae.settings, ae.provenance)
        assert torch.equal(back.encode(tokens()), ae.encode(tokens()))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"n_active": 3, "threshold": 1.0}, "n_active=3 and threshold are both given"),
    "transposed": ({"encoder": torch.ones(D, K)}, "transpose the one that has d rows"),
    "other sizes": ({"encoder": torch.ones(K, 5)}, "a dictionary rebuilds what it reads"),
    "a vector": ({"encoder": torch.ones(K)}, r"shape \(40,\) and decoder \(40, 12\); expected \(latents, d\)"),
    "bias": ({"decoder_bias": torch.ones(K)}, r"decoder_bias has shape \(40,\); expected \(12,\), or leave it out"),
    "thresholds": ({"threshold": torch.ones(D)}, r"threshold has shape \(12,\); expected \(40,\)"),
    "not finite": ({"encoder_bias": torch.full((K,), torch.inf)}, "encoder_bias holds values that are not finite"),
    "active": ({"n_active": 41}, "n_active=41 exceeds n_latents=40"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake: str) -> None:
    given, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as refusal:
        quadric.linear_dictionary(**{**matrices(), **given})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", [ReLUAutoencoder, JumpReLUAutoencoder])
def test_thresholds_and_a_number_of_latents_exclude_each_other(kind) -> None:
    with pytest.raises(ValueError, match="n_active=3 has no meaning for kind='"):
        kind(d_model=4, n_latents=8, n_active=3)
    ae = kind(d_model=4, n_latents=8)
    assert repr(ae) == f"{kind.__name__}(d_model=4, n_latents=8)"
    assert ae.encode(torch.ones(2, 4)).shape == (2, 8)
