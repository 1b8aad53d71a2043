"""The contract of the input: finite, non-zero token vectors of the model's width, scaled to unit norm."""

import torch
from jaxtyping import Float
from torch import Tensor


def check_tokens(tokens: Tensor, d_model: int) -> None:
    """Refuse what cannot be a batch of activations, naming the first offending token."""
    if not isinstance(tokens, Tensor) or not tokens.is_floating_point():
        kind = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ValueError(f"activations are {kind}; expected a floating-point tensor, e.g. x.float()")
    if tokens.ndim != 2 or tokens.shape[1] != d_model:
        raise ValueError(
            f"activations have shape {tuple(tokens.shape)}; expected (n, {d_model}), one row a token "
            f"(flatten batch and sequence first, and check the hook point's width)"
        )
    if len(tokens) == 0:
        raise ValueError("the batch is empty; expected at least one token (does the mask drop all of them?)")
    largest = tokens.detach().abs().amax(-1)  # NaN and inf both survive the maximum
    bad = ~largest.isfinite() | (largest == 0)
    if bad.any():
        place = int(bad.nonzero()[0])
        fault = "all zero" if largest[place] == 0 else "not finite"
        raise ValueError(
            f"the activation of token {place} is {fault} ({int(bad.sum())} of {len(tokens)} tokens are bad); "
            "leave such tokens out, e.g. with mask=, or look for overflow in the language model"
        )


def unit_tokens(tokens: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Each token divided by its norm, at least in float32."""
    tokens = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
    # Dividing by the largest entry first keeps the squares of extreme activations inside float32's range.
    tokens = tokens / tokens.abs().amax(-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    return tokens / norm
