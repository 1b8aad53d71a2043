"""What a linear encoder reads of a token: its direction, the token as it is, or the token normalized as SAELens does.

    unit           x/‖x‖, as every dictionary trained here
    own            x
    constant_norm  x · √d/‖x‖
    layer_norm     (x − mean of x) / (standard deviation of x + 1e-5), both over the d entries of the token

A dictionary trained elsewhere was trained on one of the last three. `prepare` of an autoencoder sets the length of a
token. Layer norm also takes out a mean, without which the token cannot be compared with its reconstruction; therefore
it is a part of encoding, and the reconstruction gets the mean and the standard deviation of the token back.
"""

from math import sqrt

from jaxtyping import Float
from torch import Tensor

from quadric.model.settings import Input

LAYER_NORM_EPSILON = 1e-5
"""SAELens's. It is added to the standard deviation, not to the variance, and left out on the way back."""


def length_of_tokens(kind: Input, d_model: int) -> float | None:
    """The length to which tokens are scaled; None where they keep their own."""
    return {"unit": 1.0, "constant_norm": sqrt(d_model)}.get(kind)


def encoder_input(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Prepared tokens as the encoder reads them."""
    if kind == "layer_norm":
        centred = tokens - tokens.mean(-1, keepdim=True)
        return centred / (centred.std(-1, keepdim=True) + LAYER_NORM_EPSILON)
    return tokens


def at_token_scale(
    kind: Input, tokens: Float[Tensor, "n d"], reconstruction: Float[Tensor, "n d"]
) -> Float[Tensor, "n d"]:
    """Reconstructions of `encoder_input(kind, tokens)` as reconstructions of the prepared tokens."""
    if kind == "layer_norm":
        return reconstruction * token_scale(kind, tokens) + tokens.mean(-1, keepdim=True)
    return reconstruction * token_scale(kind, tokens)


def token_scale(kind: Input, tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """How long a step of length 1 in what the encoder reads is in the prepared token; exactly 1 but for layer norm."""
    return tokens.std(-1, keepdim=True) if kind == "layer_norm" else tokens.new_ones(len(tokens), 1)
