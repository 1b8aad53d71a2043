"""Text -> documents in a fixed order -> blocks of tokens.

    source       numbered documents, in the order of the source
    order        a seeded shuffle, and a held-out split by document
    blocks       token ids of fixed length, or separate sequences per document

`CorpusConfig` determines everything: the same config gives the same blocks on any machine.
"""

from quadric.data.corpus.blocks import Block, TokenBlocks, TokenEncoder
from quadric.data.corpus.config import CorpusConfig, CorpusError, Document, Split
from quadric.data.corpus.order import is_held_out, ordered_documents
from quadric.data.corpus.sources import CorpusIdentity, identify, read_documents
from quadric.data.corpus.statistics import CorpusStatistics, corpus_statistics, topics_by_document

__all__ = [
    "Block",
    "CorpusConfig",
    "CorpusError",
    "CorpusIdentity",
    "CorpusStatistics",
    "Document",
    "Split",
    "TokenBlocks",
    "TokenEncoder",
    "corpus_statistics",
    "identify",
    "is_held_out",
    "ordered_documents",
    "read_documents",
    "topics_by_document",
]
