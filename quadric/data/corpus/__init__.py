"""Text -> documents in a fixed order -> blocks of tokens.

    sources      numbered documents, in the order of the source
    blocks       a held-out split by document, a seeded shuffle, then token ids of fixed length or per document

`CorpusConfig` determines everything: the same config gives the same blocks on any machine.
"""

from quadric.data.corpus.blocks import (
    Block,
    CorpusStatistics,
    TokenBlocks,
    corpus_statistics,
    ordered_documents,
)
from quadric.data.corpus.sources import CorpusIdentity, Document, identify
from quadric.data.settings import CorpusConfig, CorpusError

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
