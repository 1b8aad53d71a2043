"""Which tokens carry a latent's energy, estimated for the whole pass from the weighted draw.

The draw is not representative: it prefers large |z|. With τ the largest key of a full draw, a token of weight w is
among the others with probability 1 − exp(−wτ), so Σ z² / (1 − exp(−wτ)) over them estimates Σz² over the whole pass
without bias (Cohen and Kaplan, 2007). Only tokens that fire count, |z| above the threshold of the settings.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int, Int64

Array = np.ndarray

PRIOR_TOKENS = 10.0
"""How many tokens' worth of belief a text's own token frequencies are given before a latent has fired at all."""


class TokenPreference(NamedTuple):
    """Tokens by how much they tell a latent's firing from the text at large, best first."""

    tokens: Int64[Array, " t"]
    shares: Float64[Array, " t"]
    """p: share of the firing energy Σz² that falls on the token, drawn towards q as if by PRIOR_TOKENS tokens."""
    lifts: Float64[Array, " t"]
    """p / q, where q is the token's share of all tokens scored."""
    contributions: Float64[Array, " t"]
    """p log(p / q), the token's part in the divergence of the two distributions."""


def energies(
    values: Float32[Array, " m"], keys: Float64[Array, " m"], epsilon: float, complete: bool
) -> Float64[Array, " m"]:
    """What each point stands for in Σz² over the whole pass; `complete` if the draw holds every token."""
    squares = np.square(values.astype(np.float64))
    if complete:
        return squares
    largest = keys.max()
    weights = np.square(np.square(np.abs(values.astype(np.float64)) + epsilon))
    return np.where(keys < largest, squares / -np.expm1(-weights * largest), 0)


def preferences(
    tokens: Int[Array, " f"], energy: Float64[Array, " f"], frequencies: Float64[Array, " v"]
) -> TokenPreference:
    """Tokens ranked by p log(p / q), those with p > q only; `frequencies` is q."""
    total = energy.sum()
    if total <= 0:
        nothing = np.empty(0)
        return TokenPreference(np.empty(0, dtype=np.int64), nothing, nothing, nothing)
    effective = total**2 / np.square(energy).sum()
    kinds, which = np.unique(tokens, return_inverse=True)
    share = np.bincount(which, weights=energy) / total
    usual = frequencies[kinds]
    share = (effective * share + PRIOR_TOKENS * usual) / (effective + PRIOR_TOKENS)
    lifts = share / usual
    above: Bool[Array, " v"] = lifts > 1
    contributions = share[above] * np.log(lifts[above])
    order = np.argsort(-contributions, kind="stable")
    kept = kinds[above][order].astype(np.int64)
    return TokenPreference(kept, share[above][order], lifts[above][order], contributions[order])
