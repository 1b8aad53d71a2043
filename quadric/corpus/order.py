"""The order of documents, and which of them are held out: both fixed, neither dependent on the other."""

import hashlib
import random
from collections.abc import Iterable, Iterator

from quadric.corpus.config import CorpusConfig, Document
from quadric.corpus.sources import read_documents


def ordered_documents(
    config: CorpusConfig, epoch: int = 0, documents: Iterable[Document] | None = None
) -> Iterator[Document]:
    """The documents of one split in their seeded order; every epoch has its own. By default those of the source."""
    documents = read_documents(config) if documents is None else documents
    wanted = config.split == "held_out"
    members = (document for document in documents if is_held_out(document, config.held_out_fraction) == wanted)
    if config.seed is None:
        return members
    return shuffled(members, config.shuffle_buffer, f"{config.seed} {epoch}")


def is_held_out(document: Document, fraction: float) -> bool:
    """Whether a document belongs to the held-out part: a function of its text alone.

    Neither seed nor position decides, so that no run ever trains on what another evaluates on, and copies of
    a text land on the same side.
    """
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"quadric-split")
    return int.from_bytes(digest.digest()) < fraction * 2**64


def shuffled(documents: Iterable[Document], buffer_size: int, seed: str) -> Iterator[Document]:
    """Shuffle through a buffer: all of a small corpus, a moving window of a stream too large to hold."""
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
