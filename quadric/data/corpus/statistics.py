"""Statistics of a corpus: documents, words, tokens, topics."""

from collections import Counter
from dataclasses import dataclass, field

from quadric.data.corpus.blocks import TokenEncoder, is_held_out
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document
from quadric.data.corpus.sources import read_documents

DOCUMENTS_AT_ONCE = 256


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
    waiting: list[Document] = []
    for document in read_documents(config):
        waiting.append(document)
        if len(waiting) == DOCUMENTS_AT_ONCE or statistics.documents + len(waiting) == limit:
            _count(statistics, waiting, config, encoder)
            waiting = []
        if statistics.documents == limit:
            break
    _count(statistics, waiting, config, encoder)
    if not statistics.documents:
        raise CorpusError(f"corpus '{config.source}' has no text; use files that are not empty")
    return statistics


def _count(
    statistics: CorpusStatistics,
    documents: list[Document],
    config: CorpusConfig,
    encoder: TokenEncoder | None,
) -> None:
    if not documents:
        return
    lengths = [len(document.text) for document in documents]
    statistics.shortest = min([*lengths, statistics.shortest or lengths[0]])
    statistics.longest = max([*lengths, statistics.longest])
    statistics.documents += len(documents)
    statistics.characters += sum(lengths)
    statistics.words += sum(len(document.text.split()) for document in documents)
    statistics.held_out_documents += sum(is_held_out(each, config.held_out_fraction) for each in documents)
    statistics.topics.update(each.topic for each in documents if each.topic is not None)
    if encoder is not None:
        encoded = encoder.encode([document.text for document in documents])
        statistics.tokens = (statistics.tokens or 0) + sum(map(len, encoded))
