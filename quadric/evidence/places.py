"""Places of tokens: one number per token of a corpus, the text around it, and the text of sequences that were read."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64, UInt64

from quadric.evidence.record import TextRead
from quadric.evidence.text import TextSource

Array = np.ndarray

POSITION_BITS = 20
"""Enough for sequences of a million tokens."""


def place_of(sequences: Int64[Array, " n"], positions: Int64[Array, " n"]) -> Int64[Array, " n"]:
    """Sequence and position as one number, the same however the corpus is batched or split."""
    return np.asarray((sequences << POSITION_BITS) | positions)


def sequence_of(places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
    """The sequence of each place."""
    return places >> POSITION_BITS


def position_of(places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
    """The position of each place in its sequence."""
    return places & ((1 << POSITION_BITS) - 1)


def splitmix(values: UInt64[Array, "*shape"]) -> UInt64[Array, "*shape"]:
    """Hash 64-bit numbers, one to one."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def window_hashes(
    text: TextSource, sequences: Int64[Array, " n"], positions: Int64[Array, " n"], window: int
) -> UInt64[Array, " n"]:
    """Hash of the tokens from `window` before to `window` after each place: equal for equal text."""
    around = np.zeros((2 * window + 1, len(sequences)), dtype=np.uint64)  # 0: no token, since ids are shifted by one
    order = np.argsort(sequences, kind="stable")
    numbers, starts = np.unique(sequences[order], return_index=True)
    for number, here in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        tokens = text.sequence(number).tokens.astype(np.uint64) + np.uint64(1)
        padded = np.pad(tokens, window)
        around[:, here] = padded[positions[here] + np.arange(2 * window + 1)[:, None]]
    hashes = np.zeros(len(sequences), dtype=np.uint64)
    for tokens in around:
        hashes = splitmix(hashes ^ tokens)
    return hashes


class NumberedText(NamedTuple):
    """The text of some sequences, and which sequences they are."""

    read: TextRead
    sequences: Int64[Array, " s"]

    def indices_of(self, places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
        """Places as indices into the text; missing ones stay missing."""
        number = np.searchsorted(self.sequences, sequence_of(places)).clip(max=len(self.sequences) - 1)
        return np.where(places < 0, places, self.read.sequence_starts[number] + position_of(places))


def text_read(source: TextSource, sequences: Int64[Array, " s"]) -> NumberedText:
    """The text of the given sequences (ascending), its tokens numbered by how common they are in it."""
    parts = [source.sequence(int(number)) for number in sequences]
    lengths = np.array([len(part.tokens) for part in parts])
    original, dense = _ranked(np.concatenate([part.tokens for part in parts]))
    read = TextRead(
        token_ids=dense,
        sequence_starts=(lengths.cumsum() - lengths).astype(np.int64),
        documents=np.concatenate([part.documents for part in parts]),
        vocabulary=source.token_bytes(original),
    )
    return NumberedText(read, sequences)


def _ranked(tokens: Int32[Array, " n"]) -> tuple[list[int], Int32[Array, " n"]]:
    """The distinct tokens by frequency descending, and every token as its rank among them."""
    distinct, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    order = np.lexsort((distinct, -counts))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order].tolist(), rank[inverse]


def as_text(parts: Sequence[bytes]) -> str:
    """Tokens decoded together, so that characters that span tokens are complete."""
    return b"".join(parts).decode("utf-8", errors="replace")
