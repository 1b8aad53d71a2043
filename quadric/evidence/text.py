"""The text around the tokens: every position that the language model read, those that the token rules dropped too.

A live stream's text is cut anew from the corpus by the same rules, which costs little beside the model. A cache holds
the token ids of its sequences, but documents only of the tokens it kept: there a dropped position counts to the
document of the kept token before it, or after it at the start of a sequence. That is right for a separator and a BOS,
and may be off by a document for an outlier that begins one, or after
the very last token of a cache that was cut to a number of tokens.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32, Int64, UInt64

from quadric.activations import ActivationCache, CachedStream, LiveStream
from quadric.activations.batches import ActivationStream
from quadric.activations.models import find_model, load_shape
from quadric.activations.tokenizer import Tokenizer
from quadric.corpus import Block, TokenBlocks
from quadric.evidence.places import position_of, sequence_of
from quadric.evidence.record import TextRead
from quadric.evidence.uniforms import splitmix

Array = np.ndarray


class ReadSequence(NamedTuple):
    """One sequence as the language model read it."""

    tokens: Int32[Array, " l"]
    documents: Int32[Array, " l"]


@runtime_checkable
class TextSource(Protocol):
    """What evidence must know of the text behind a stream."""

    def sequence(self, number: int) -> ReadSequence: ...

    def token_bytes(self, token_ids: list[int]) -> list[bytes]: ...


class CorpusText:
    """The text of a live stream, cut from its corpus as far as it is asked for."""

    def __init__(self, blocks: TokenBlocks, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._blocks: Iterator[Block] = iter(blocks)
        self._read: list[ReadSequence] = []

    def sequence(self, number: int) -> ReadSequence:
        while len(self._read) <= number:
            tokens, documents = next(self._blocks)
            self._read.append(ReadSequence(np.array(tokens, dtype=np.int32), np.array(documents, dtype=np.int32)))
        return self._read[number]

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return self.tokenizer.token_bytes(token_ids)


class CachedText:
    """The text of a cache; see the module for what it knows of documents."""

    def __init__(self, cache: ActivationCache, tokenizer: Tokenizer) -> None:
        self.cache, self.tokenizer = cache, tokenizer
        self._firsts = [shard.first_sequence for shard in cache.manifest.shards]

    def sequence(self, number: int) -> ReadSequence:
        which = bisect_right(self._firsts, number) - 1
        shard, row = self.cache.shard(which), number - self._firsts[which]
        tokens = shard.sequence_tokens[row].numpy()
        tokens = tokens[tokens >= 0]
        kept = slice(int(shard.offsets[row]), int(shard.offsets[row + 1]))
        documents = shard.columns["documents"][kept].numpy().astype(np.int32)
        nearest = np.searchsorted(shard.columns["positions"][kept].numpy(), np.arange(len(tokens)), side="right") - 1
        return ReadSequence(tokens.astype(np.int32), documents[nearest.clip(min=0)])

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return self.tokenizer.token_bytes(token_ids)


def text_behind(stream: ActivationStream, model: str | None = None) -> CorpusText | CachedText:
    """The text of a live or cached stream; `model` says where a cache's language model is, if not where it was."""
    if isinstance(stream, LiveStream):
        tokenizer, config = stream.model.tokenizer, stream.config
        bos, separator = config.rules.bos_of(tokenizer), tokenizer.separator
        return CorpusText(TokenBlocks(config.corpus, tokenizer, bos=bos, separator=separator), tokenizer)
    if isinstance(stream, CachedStream):
        return CachedText(stream.cache, _tokenizer_of(stream.cache, model))
    raise ValueError(f"a {type(stream).__name__} does not say which text it reads; give text=")


def _tokenizer_of(cache: ActivationCache, model: str | None) -> Tokenizer:
    recorded = cache.provenance
    tokenizer = load_shape(find_model(model or recorded.model)).tokenizer
    if tokenizer.fingerprint() != recorded.tokenizer_fingerprint:
        raise ValueError(
            f"the tokenizer of '{model or recorded.model}' is not the one that {cache.folder} was harvested with; "
            "name the model it came from with --model"
        )
    return tokenizer


def window_hashes(
    text: TextSource, sequences: Int64[Array, " n"], positions: Int64[Array, " n"], window: int
) -> UInt64[Array, " n"]:
    """A number for the tokens from `window` before to `window` after each place: equal for equal text."""
    hashes = np.empty(len(sequences), dtype=np.uint64)
    for number in np.unique(sequences):
        here = sequences == number
        hashes[here] = _hashes_of(text.sequence(int(number)).tokens, window)[positions[here]]
    return hashes


def _hashes_of(tokens: Int32[Array, " l"], window: int) -> UInt64[Array, " l"]:
    edge = np.zeros(window, dtype=np.uint64)  # no token: ids are shifted by one
    padded = np.concatenate([edge, tokens.astype(np.uint64) + np.uint64(1), edge])
    hashes = np.zeros(len(tokens), dtype=np.uint64)
    for shift in range(2 * window + 1):
        hashes = splitmix(hashes ^ padded[shift : shift + len(tokens)])
    return hashes


class NumberedText(NamedTuple):
    """The text of some sequences, and where each of them begins in it."""

    read: TextRead
    sequences: Int64[Array, " s"]

    def indices_of(self, places: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
        """Places as indices into the text; missing ones stay missing."""
        number = np.searchsorted(self.sequences, sequence_of(places)).clip(max=len(self.sequences) - 1)
        return np.where(places < 0, places, self.read.sequence_starts[number] + position_of(places))


def text_read(source: TextSource, sequences: Int64[Array, " s"]) -> NumberedText:
    """The text of the given sequences (ascending), its tokens renumbered by how common they are in it."""
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
    """Tokens decoded together, so that characters that span tokens are whole."""
    return b"".join(parts).decode("utf-8", errors="replace")
