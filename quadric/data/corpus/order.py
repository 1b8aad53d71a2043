"""Order of documents, and which of them are held out. Both are deterministic and independent of each other."""

import hashlib
import random
from collections.abc import Iterable, Iterator

from quadric.data.corpus.config import CorpusConfig, Document
from quadric.data.corpus.sources import read_documents


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

    Args:
        document: The document.
        fraction: Share of all documents to hold out, from 0 to 1.

    Returns:
        True for held-out documents, False for training documents.

    Example:
        >>> from quadric.data.corpus import Document
        >>> from quadric.data.corpus.order import is_held_out
        >>> is_held_out(Document(index=0, text="Monday comes before Tuesday."), fraction=0.05)
        False
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
