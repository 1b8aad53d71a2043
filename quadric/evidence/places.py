"""One number for a token's place in a corpus, the same however the corpus is batched or shared out."""

import numpy as np
from jaxtyping import Int64

Array = np.ndarray

POSITION_BITS = 20
"""Enough for sequences of a million tokens."""


def place_of(sequences: Int64[Array, " n"], positions: Int64[Array, " n"]) -> Int64[Array, " n"]:
    """Sequence and position as one number."""
    return np.asarray((sequences << POSITION_BITS) | positions)


def sequence_of(places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
    return places >> POSITION_BITS


def position_of(places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
    return places & ((1 << POSITION_BITS) - 1)
