"""The objective as pure functions: unit tokens, kernel-trick error, Hoyer density, product-space correction.

The error of a bilinear autoencoder is measured in the d×d product space without building it:

    ‖X̂ − X‖²/‖X‖² = (zᵀKz − 2‖z‖² + ‖x‖⁴) / ‖x‖⁴,   X = xxᵀ,   K = C G Cᵀ,   G = inner products of the atoms.

Training uses the fused forms of the same formulas in `fast`.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor


@contextmanager
def float32_arithmetic() -> Iterator[None]:
    """Compute without autocast and with float32 as the default type, whatever the caller has set.

    Both change results a little and without a word. A decorator of the functions that measure and train.
    """
    before, accelerator = torch.get_default_dtype(), torch.accelerator.current_accelerator()
    kinds = {"cpu", "cpu" if accelerator is None else accelerator.type}
    with ExitStack() as stack:
        for kind in filter(torch.amp.is_autocast_available, kinds):
            stack.enter_context(torch.autocast(kind, enabled=False))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def prepare_tokens(
    tokens: Tensor, d_model: int, dtype: torch.dtype, mask: Tensor | None = None, *, length: float | None = 1.0
) -> Float[Tensor, "n d"]:
    """The tokens that the mask keeps, checked, in the working precision of `dtype` parameters, scaled to a length."""
    if mask is not None:
        tokens = tokens[checked_mask(mask, tokens)]
    check_tokens(tokens, d_model)
    scaled = tokens if length is None else unit_tokens(tokens) if length == 1 else length * unit_tokens(tokens)
    return scaled.to(working_dtype(tokens.dtype, dtype))


def check_tokens(tokens: Tensor, d_model: int) -> None:
    """Raise ValueError unless `tokens` is a batch of finite, non-zero activations; names the first bad token.

    Args:
        tokens: The batch to check.
        d_model: Width that it must have.

    Returns:
        Nothing.

    Example:
        >>> from quadric.model import check_tokens
        >>> check_tokens(torch.zeros(3, 32), d_model=32)
        Traceback (most recent call last):
            ...
        ValueError: the activation of token 0 is all zero (3 of 3 tokens are bad); ...
    """
    if not isinstance(tokens, Tensor) or not tokens.is_floating_point():
        kind = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ValueError(f"activations are {kind}; expected a floating-point tensor, e.g. x.float()")
    if tokens.ndim != 2 or tokens.shape[1] != d_model:
        raise ValueError(
            f"activations have shape {tuple(tokens.shape)}; expected (n, {d_model}), one row per token "
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


def unit_tokens(tokens: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """Each token divided by its norm, at least in float32.

    Args:
        tokens: Activations, none of them zero.

    Returns:
        Vectors of length 1 in the same directions.

    Example:
        >>> from quadric.model import unit_tokens
        >>> unit_tokens(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    tokens = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
    # Dividing by the largest entry first keeps the squares of extreme activations inside float32's range.
    tokens = tokens / tokens.abs().amax(-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    return tokens / norm


def working_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """At least float32: the cancellation in zᵀKz − 2‖z‖² + 1 is lost in bfloat16."""
    return reduce(torch.promote_types, dtypes, torch.float32)


def checked_mask(mask: Tensor, tokens: Tensor) -> Tensor:
    """A mask that fits the tokens; an error that says what does not fit."""
    if mask.dtype != torch.bool or mask.shape != tokens.shape[:1]:
        raise ValueError(
            f"mask is {mask.dtype} of shape {tuple(mask.shape)}; expected torch.bool of shape "
            f"{tuple(tokens.shape[:1])}, True where a token counts"
        )
    return mask


def quadratic_form(latents: Float[Tensor, "n k"], kernel: Float[Tensor, "k k"]) -> Float[Tensor, " n"]:
    """zᵀKz per token, for symmetric K."""
    return (kernel @ latents.mT * latents.mT).sum(0)


def kernel_error(quadratic: Float[Tensor, " n"], latents: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """Normalized product-space error of unit tokens: zᵀKz − 2‖z‖² + 1."""
    return quadratic - 2 * latents.square().sum(-1) + 1


def hoyer_density(latents: Float[Tensor, "n k"], offset: Float[Tensor, " k"] | None = None) -> Float[Tensor, " k"]:
    """How evenly each latent fires over the tokens: 0 if on a single token, 1 if equally on all.

    (‖z − b‖₁/‖z − b‖₂ − 1) / (√n − 1)
    """
    return density_from_norms(*density_norms(latents, offset), len(latents))


def density_norms(
    latents: Float[Tensor, "n k"], offset: Float[Tensor, " k"] | None = None
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """‖z − b‖₁ and ‖z − b‖₂² per latent over the tokens."""
    centred = latents if offset is None else latents - offset
    return centred.abs().sum(0), centred.square().sum(0)


def density_from_norms(l1: Float[Tensor, " k"], l2_squared: Float[Tensor, " k"], n_tokens: int) -> Float[Tensor, " k"]:
    """Hoyer density from sums over tokens, which may have been summed over processes."""
    if n_tokens < 2:
        return l1 * 0  # a single token is both one-hot and uniform: nothing to penalize
    # A latent that equals its offset on every token counts as uniform, with zero gradient. The first `where` keeps
    # the unused 0/0 out of the backward pass.
    silent = l2_squared <= torch.finfo(l2_squared.dtype).tiny
    ratio = l1 / torch.where(silent, 1, l2_squared).sqrt()
    return (torch.where(silent, sqrt(n_tokens), ratio) - 1) / (sqrt(n_tokens) - 1)


def product_space_error(tokens: Float[Tensor, "n d"], reconstruction: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Exact ‖xxᵀ − x̂x̂ᵀ‖²/‖xxᵀ‖² of a linear reconstruction, comparable with a bilinear error.

    S = ½(1 − ‖x̂‖²)² + s(1 + ‖x̂‖²) − ½s² for unit x and s = ‖x − x̂‖². It equals 1 + ‖x̂‖⁴ − 2(x·x̂)², whose
    terms of size one cancel to rounding noise for a good reconstruction.
    """
    energy = tokens.square().sum(-1)
    residual = (tokens - reconstruction).square().sum(-1) / energy
    size = reconstruction.square().sum(-1) / energy
    return (1 - size).square() / 2 + residual * (1 + size) - residual.square() / 2
