"""Documents -> sequences of token ids for the language model, and counts of both.

The order of documents, and which of them are held out, are deterministic and independent of each other.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

from quadric.data.corpus.sources import Document, read_documents
from quadric.data.settings import CorpusConfig, CorpusError


def ordered_documents(
    config: CorpusConfig, epoch: int = 0, documents: Iterable[Document] | None = None
) -> Iterator[Document]:
    """Documents of one split in a seeded order, which is different in every epoch.

    Args:
        config: Source, split and seed; `seed=None` keeps the order of the source.
        epoch: Number of times that the text was read before.
        documents: Documents in memory to read instead of the source.

    Returns:
        An iterator of documents.

    Example:
        >>> from quadric.data.corpus import CorpusConfig, ordered_documents
        >>> config = CorpusConfig(source="texts.jsonl", split="held_out", held_out_fraction=0.1)
        >>> [document.index for document in ordered_documents(config)][:3]
        [6, 131, 104]
    """
    documents = read_documents(config) if documents is None else documents
    wanted = config.split == "held_out"
    members = (document for document in documents if is_held_out(document, config.held_out_fraction) == wanted)
    if config.seed is None:
        return members
    return shuffled(members, config.shuffle_buffer, f"{config.seed} {epoch}")


def is_held_out(document: Document, fraction: float) -> bool:
    """Whether a document is held out, decided by its text alone.

    The seed and the position play no part. So no run trains on documents that another run evaluates on, and
    duplicates of a text are always in the same split.
    """
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"quadric-split")
    return int.from_bytes(digest.digest()) < fraction * 2**64


def shuffled(documents: Iterable[Document], buffer_size: int, seed: str) -> Iterator[Document]:
    """Shuffle with a buffer: a small corpus is shuffled completely, a large stream within a moving window."""
    generator = random.Random(seed)
    buffer: list[Document] = []
    for document in documents:
        if len(buffer) < buffer_size:
            buffer.append(document)
            continue
        place = generator.randrange(buffer_size)
        yield buffer[place]
        buffer[place] = document
    generator.shuffle(buffer)
    yield from buffer


DOCUMENTS_AT_ONCE = 64


@runtime_checkable
class TokenEncoder(Protocol):
    """The only tokenizer method that packing needs."""

    def encode(self, texts: list[str]) -> list[list[int]]: ...


class Block(NamedTuple):
    """One sequence for the language model, and the document that each of its tokens belongs to."""

    tokens: list[int]
    documents: list[int]


@dataclass(eq=False)
class TokenBlocks:
    """The blocks of one epoch of a corpus, in a fixed order.

    Example:
        >>> from quadric.data import find_model, load_model
        >>> from quadric.data.corpus import CorpusConfig, TokenBlocks
        >>> encoder = load_model(find_model("my-model")).tokenizer
        >>> config = CorpusConfig(source="texts.jsonl", block_length=64)
        >>> blocks = TokenBlocks(config, encoder, bos=None, separator=encoder.separator)
        >>> first = next(iter(blocks))
        >>> len(first.tokens), len(first.documents)
        (64, 64)
    """

    config: CorpusConfig
    """Text, order and length of the blocks."""
    encoder: TokenEncoder
    _: KW_ONLY
    bos: int | None
    """Token prepended to every block; None prepends nothing."""
    separator: int | None
    """Token appended to every document when packing; None appends nothing."""
    epoch: int = 0
    """Number of times that the text was read before; every epoch has its own order."""
    documents: Sequence[Document] | None = None
    """Documents in memory to read instead of the config's source."""

    def __post_init__(self) -> None:
        self.documents_read = 0
        self.tokens_read = 0
        self.tail_tokens = 0
        """Tokens at the end that did not fill a block."""

    def __iter__(self) -> Iterator[Block]:
        self.documents_read = self.tokens_read = self.tail_tokens = 0
        encoded = self._encoded(ordered_documents(self.config, self.epoch, self.documents))
        empty = True
        for block in self._packed(encoded) if self.config.packing == "packed" else self._separate(encoded):
            empty = False
            yield block
        if empty:
            raise CorpusError(self._empty_message())

    def _encoded(self, documents: Iterable[Document]) -> Iterator[tuple[int, list[int]]]:
        """Token ids of each document. Documents are encoded in groups because tokenizers are faster on a batch."""
        documents = iter(documents)
        while some := list(islice(documents, DOCUMENTS_AT_ONCE)):
            encoded = self.encoder.encode([document.text for document in some])
            for document, tokens in zip(some, encoded, strict=True):
                self.documents_read += 1
                self.tokens_read += len(tokens)
                yield document.index, tokens

    def _packed(self, encoded: Iterable[tuple[int, list[int]]]) -> Iterator[Block]:
        tokens: list[int] = []
        owners: list[int] = []
        separator = [] if self.separator is None else [self.separator]
        for index, document_tokens in encoded:
            tokens += document_tokens + separator
            owners += [index] * (len(document_tokens) + len(separator))
            start = 0
            while len(tokens) - start >= self._span:
                yield self._block(tokens, owners, start)
                start += self._span
            del tokens[:start], owners[:start]
        self.tail_tokens = len(tokens)

    def _separate(self, encoded: Iterable[tuple[int, list[int]]]) -> Iterator[Block]:
        """A document longer than a block continues in the next sequence."""
        for index, tokens in encoded:
            for start in range(0, len(tokens), self._span):
                yield self._block(tokens, [index] * len(tokens), start)

    @property
    def _span(self) -> int:
        return self.config.block_length - (self.bos is not None)

    def _block(self, tokens: list[int], owners: list[int], start: int) -> Block:
        stop = start + self._span
        if self.bos is None:
            return Block(tokens[start:stop], owners[start:stop])
        return Block([self.bos, *tokens[start:stop]], [owners[start], *owners[start:stop]])

    def _empty_message(self) -> str:
        source, split = self.config.source, self.config.split
        if self.tokens_read:
            return (
                f"corpus '{source}' ({split}) has {self.tokens_read} tokens, fewer than one block of "
                f"{self.config.block_length}; use more text, a smaller block_length, or packing=separate"
            )
        return (
            f"corpus '{source}' has no text in its {split} split; use a corpus with text, another "
            "held_out_fraction, or a document_separator that splits a single file into documents"
        )


@dataclass
class CorpusStatistics:
    """Counts over all documents of a corpus, training and held-out."""

    documents: int = 0
    held_out_documents: int = 0
    characters: int = 0
    words: int = 0
    tokens: int | None = None
    """None without a tokenizer."""
    shortest: int = 0
    """Characters of the shortest document."""
    longest: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    """Number of documents per topic; empty if the corpus has no topics."""


def corpus_statistics(
    config: CorpusConfig, encoder: TokenEncoder | None = None, limit: int | None = None
) -> CorpusStatistics:
    """Count the documents, words, tokens and topics of a corpus.

    Args:
        config: The corpus. Training and held-out documents both count.
        encoder: Tokenizer; without one, tokens are not counted.
        limit: Count only so many documents from the start.

    Returns:
        The counts.

    Example:
        >>> from quadric.data.corpus import CorpusConfig, corpus_statistics
        >>> counts = corpus_statistics(CorpusConfig(source="texts.jsonl", topic_field="topic"))
        >>> counts.documents, counts.words, counts.topics["day"]
        (200, 1500, 100)
    """
    statistics = CorpusStatistics(tokens=None if encoder is None else 0)
    documents = islice(read_documents(config), limit)
    while some := list(islice(documents, DOCUMENTS_AT_ONCE)):
        lengths = [len(document.text) for document in some]
        statistics.shortest = min([*lengths, statistics.shortest or lengths[0]])
        statistics.longest = max([*lengths, statistics.longest])
        statistics.documents += len(some)
        statistics.characters += sum(lengths)
        statistics.words += sum(len(document.text.split()) for document in some)
        statistics.held_out_documents += sum(is_held_out(document, config.held_out_fraction) for document in some)
        statistics.topics.update(document.topic for document in some if document.topic is not None)
        if encoder is not None:
            encoded = encoder.encode([document.text for document in some])
            statistics.tokens = (statistics.tokens or 0) + sum(map(len, encoded))
    if not statistics.documents:
        raise CorpusError(f"corpus '{config.source}' has no text; use files that are not empty")
    return statistics
