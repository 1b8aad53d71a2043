"""What an encoder reads of a token, and the way back."""

from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from quadric.model.objective import prepare_tokens
from quadric.model.scaling import Input, at_token_scale, encoder_input, length_of_tokens, token_scale
from tests import zoo


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
