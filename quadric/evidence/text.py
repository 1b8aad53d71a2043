"""The text behind a stream of activations: every position that was read, including those that token rules dropped.

The text of a live stream is cut from the corpus again by the same rules, which costs little compared with the model.
A cache holds the token ids of its sequences, but documents only of the tokens it kept: a dropped position there gets
the document of the kept token before it, or after it at the start of a sequence. That is right for a separator and a
BOS, and may be off by a document for an outlier that begins one, or after the very last token of a cache that was cut
to a number of tokens. The rows of a bare tensor are sequences of one token each.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32

from quadric.data import ActivationCache, CachedStream, LiveStream
from quadric.data.batches import ActivationStream
from quadric.data.corpus import Block, TokenBlocks
from quadric.data.models import find_model, load_shape
from quadric.data.sources import Activations, ActivationsInMemory, ActivationsOnDisk
from quadric.data.tokenizer import Tokenizer

Array = np.ndarray


class ReadSequence(NamedTuple):
    """One sequence as the language model read it."""

    tokens: Int32[Array, " l"]
    documents: Int32[Array, " l"]


@runtime_checkable
class TextSource(Protocol):
    """What evidence needs of the text behind a stream."""

    def sequence(self, number: int) -> ReadSequence: ...

    def token_bytes(self, token_ids: list[int]) -> list[bytes]: ...


class _TokenizedText:
    tokenizer: Tokenizer

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return self.tokenizer.token_bytes(token_ids)


class CorpusText(_TokenizedText):
    """The text of a live stream, cut from its corpus as far as needed."""

    def __init__(self, blocks: TokenBlocks, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._blocks: Iterator[Block] = iter(blocks)
        self._read: list[ReadSequence] = []

    def sequence(self, number: int) -> ReadSequence:
        while len(self._read) <= number:
            tokens, documents = next(self._blocks)
            self._read.append(ReadSequence(np.array(tokens, dtype=np.int32), np.array(documents, dtype=np.int32)))
        return self._read[number]


class CachedText(_TokenizedText):
    """The text of a cache; the module's docstring says what it knows about documents."""

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


class HarvestedText(_TokenizedText):
    """The text of activations in memory, which hold the sequences that the language model read."""

    def __init__(self, activations: ActivationsInMemory) -> None:
        self.activations, self.tokenizer = activations, activations.tokenizer

    def sequence(self, number: int) -> ReadSequence:
        return ReadSequence(*self.activations.sequences[number])


class RowText:
    """The rows of a bare tensor as text: each row is a sequence of one token and a document of its own.

    The token of a row is the string given for it, or "row 17". Rows with identical strings share one token, so that
    labels name the strings on which a latent fires.

    Args:
        n_rows: Number of rows of the tensor.
        texts: One string per row; a row whose string is empty is called by its number.

    Example:
        >>> from quadric.evidence import RowText
        >>> text = RowText(3, ["cat", "dog", "cat"])
        >>> text
        RowText(3 rows, 2 distinct texts)
    """

    def __init__(self, n_rows: int, texts: Sequence[str] | None = None) -> None:
        if texts is not None and len(texts) != n_rows:
            raise ValueError(f"{len(texts)} texts were given for {n_rows} rows; give one string per row")
        for row, text in enumerate(texts or ()):
            if not isinstance(text, str):
                raise ValueError(f"the text of row {row} is {text!r} of type {type(text).__name__}; give strings")
        names = [text or f"row {row}" for row, text in enumerate(texts if texts is not None else [""] * n_rows)]
        numbers: dict[str, int] = {}
        self._tokens = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int32)
        self._rows = np.arange(n_rows, dtype=np.int32)
        self._vocabulary = [name.encode("utf-8", errors="replace") for name in numbers]

    def sequence(self, number: int) -> ReadSequence:
        if not 0 <= number < len(self._rows):
            raise ValueError(f"row {number} is outside 0 … {len(self._rows) - 1}; give a text for every row")
        row = slice(number, number + 1)
        return ReadSequence(self._tokens[row], self._rows[row])

    def token_bytes(self, token_ids: list[int]) -> list[bytes]:
        return [self._vocabulary[token] for token in token_ids]

    def __repr__(self) -> str:
        return f"RowText({len(self._tokens):,} rows, {len(self._vocabulary):,} distinct texts)"


def text_behind(stream: ActivationStream, model: str | None = None) -> CorpusText | CachedText:
    """The text of a live or cached stream; `model` is where a cache's language model is now, if it was moved.

    Args:
        stream: A live or cached stream.
        model: Location of the language model of a cache, if its recorded name is not enough to find it.

    Returns:
        The text, for functions that collect evidence.

    Example:
        >>> from quadric.evidence import open_live, text_behind
        >>> text = text_behind(open_live(ae.provenance, batch_tokens=256))
        >>> len(text.sequence(0).tokens)
        32
    """
    if isinstance(stream, LiveStream):
        tokenizer, config = stream.model.tokenizer, stream.config
        bos, separator = config.rules.bos_of(tokenizer), tokenizer.separator
        return CorpusText(TokenBlocks(config.corpus, tokenizer, bos=bos, separator=separator), tokenizer)
    if isinstance(stream, CachedStream):
        return CachedText(stream.cache, _tokenizer_of(stream.cache, model))
    raise ValueError(
        f"a {type(stream).__name__} does not say which text it reads; give text=, e.g. RowText for rows of a tensor"
    )


def length_of(source: Activations) -> int:
    """How many rows there are."""
    if isinstance(source, ActivationsInMemory | ActivationsOnDisk):
        return len(source)
    raise ValueError("an iterable of tensors does not say how many rows it has; give tokens=")


def text_of(source: Activations, stream: Any, n_tokens: int, tokenizer: Any = None) -> TextSource:
    """The text behind activations that a user gave."""
    if isinstance(source, ActivationsOnDisk):
        return text_behind(stream) if tokenizer is None else CachedText(source.cache, Tokenizer(tokenizer))
    if tokenizer is not None:
        raise ValueError("tokenizer= is for a cache folder; leave it out")
    if isinstance(source, ActivationsInMemory) and source.sequences:
        return HarvestedText(source)
    if isinstance(source, ActivationsInMemory):
        return RowText(len(source), source.texts)
    return RowText(n_tokens)


def _tokenizer_of(cache: ActivationCache, model: str | None) -> Tokenizer:
    recorded = cache.provenance
    name = model or recorded.model
    if name is None:
        raise ValueError(f"{cache.folder} does not record its language model; name it with --model")
    tokenizer = load_shape(find_model(name)).tokenizer
    if tokenizer.fingerprint() != recorded.tokenizer_fingerprint:
        raise ValueError(
            f"the tokenizer of '{name}' is not the one that {cache.folder} was harvested with; "
            "name the model it came from with --model"
        )
    return tokenizer
