"""Text -> documents in a fixed order -> blocks of tokens.

    source       numbered documents, in the order of the source
    order        a seeded shuffle, and a held-out split by document
    blocks       token ids of fixed length, or separate sequences per document

`CorpusConfig` determines everything: the same config gives the same blocks on any machine.
"""

from quadric.data.corpus.blocks import Block, TokenBlocks
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document
from quadric.data.corpus.order import ordered_documents
from quadric.data.corpus.sources import CorpusIdentity, identify
from quadric.data.corpus.statistics import CorpusStatistics, corpus_statistics

__all__ = [
    "Block",
    "CorpusConfig",
    "CorpusError",
    "CorpusIdentity",
    "CorpusStatistics",
    "Document",
    "TokenBlocks",
    "corpus_statistics",
    "identify",
    "ordered_documents",
]
