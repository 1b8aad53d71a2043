"""What a linear encoder reads of a token: its direction, the token as it is, or the token normalized as SAELens does.

    unit           x/‖x‖, as every dictionary trained here
    own            x
    constant_norm  x · √d/‖x‖
    layer_norm     (x − mean of x) / (standard deviation of x + 1e-5), both over the d entries of the token

A dictionary trained elsewhere was trained on one of the last three. Its reconstruction has to be scaled back to the
token's own length before it is compared with the token; the length, and with layer_norm the mean, is the token's.
"""

from math import sqrt
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Input = Literal["unit", "own", "constant_norm", "layer_norm"]

LAYER_NORM_EPSILON = 1e-5
"""SAELens's. It is added to the standard deviation, not to the variance, and left out on the way back."""


def encoder_input(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """The tokens as the encoder reads them; "unit" expects unit tokens and leaves them as they are."""
    if kind == "constant_norm":
        return tokens * (sqrt(tokens.shape[-1]) / _length(tokens))
    if kind == "layer_norm":
        centred = tokens - tokens.mean(-1, keepdim=True)
        return centred / (centred.std(-1, keepdim=True) + LAYER_NORM_EPSILON)
    return tokens


def at_token_scale(
    kind: Input, tokens: Float[Tensor, "n d"], reconstruction: Float[Tensor, "n d"]
) -> Float[Tensor, "n d"]:
    """Reconstructions of `encoder_input(kind, tokens)` as reconstructions of the tokens."""
    if kind == "layer_norm":
        return reconstruction * token_scale(kind, tokens) + tokens.mean(-1, keepdim=True)
    return reconstruction * token_scale(kind, tokens)


def token_scale(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """How long a step of length 1 in what the encoder reads is in the token; exactly 1 for "unit" and "own"."""
    if kind == "constant_norm":
        return _length(tokens) / sqrt(tokens.shape[-1])
    if kind == "layer_norm":
        return tokens.std(-1, keepdim=True)
    return tokens.new_ones(len(tokens), 1)


def _length(tokens: Tensor) -> Float[Tensor, "n 1"]:
    length: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    return length
