"""Random numbers that depend on (seed, latent, token) alone: no order of reading can change them.

A token and a latent are each hashed once; a number for every pair of them takes two 32-bit multiplications. For one
latent the numbers of different tokens are independent for all practical purposes, and so are those of different
latents.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt32, UInt64

Array = np.ndarray

TWO_TO_MINUS_32 = 2.0**-32


class TokenCounters(NamedTuple):
    """Two independent hashes of every token, so that tokens that share one do not share their numbers."""

    first: UInt32[Array, " n"]
    second: UInt32[Array, " n"]


def token_counters(seed: int, tokens: Int64[Array, " n"]) -> TokenCounters:
    """Hashes of tokens, given by their places."""
    mixed = splitmix(tokens.view(np.uint64) ^ splitmix(_as_unsigned(2 * seed)))
    return TokenCounters((mixed >> np.uint64(32)).astype(np.uint32), mixed.astype(np.uint32))


def latent_counters(seed: int, n_latents: int) -> UInt32[Array, " k"]:
    """Hashes of latents."""
    return splitmix(np.arange(n_latents, dtype=np.uint64) ^ splitmix(_as_unsigned(2 * seed + 1))).astype(np.uint32)


def pair_hashes(latents: UInt32[Array, " b"], tokens: TokenCounters) -> UInt32[Array, "b n"]:
    """A uniform 32-bit number for every pair of a latent and a token."""
    mixed = latents[:, None] ^ tokens.first
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= tokens.second
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return np.asarray(mixed)


def exponentials(hashes: UInt32[Array, " c"]) -> Float64[Array, " c"]:
    """Standard exponential variables −log(1 − u), with u strictly between 0 and 1."""
    return np.asarray(-np.log1p(-(hashes + 0.5) * TWO_TO_MINUS_32))


def lower_bounds(hashes: UInt32[Array, "b n"]) -> Float32[Array, "b n"]:
    """u, which never exceeds its exponential −log(1 − u) by more than rounding and is far cheaper."""
    return hashes.astype(np.float32) * np.float32(TWO_TO_MINUS_32)


def splitmix(values: UInt64[Array, "*shape"]) -> UInt64[Array, "*shape"]:
    """A bijection of 64-bit numbers that scatters them."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _as_unsigned(number: int) -> UInt64[Array, ""]:
    return np.asarray(number % 2**64, dtype=np.uint64)
