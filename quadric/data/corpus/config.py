"""Configuration of a corpus: which text to read, in which order, and how to split it into blocks."""

from dataclasses import dataclass
from typing import Literal

Packing = Literal["packed", "separate"]
Split = Literal["train", "held_out"]


class CorpusError(ValueError):
    """The requested text is missing, empty or unreadable."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text. Its index is its position in the source, independent of the order of reading."""

    index: int
    text: str
    topic: str | None = None


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Which text to read, in which order, and how to split it into blocks.

    Example:
        >>> from quadric.data.corpus import CorpusConfig
        >>> config = CorpusConfig(source="texts.jsonl", topic_field="topic", block_length=128)
        >>> config.split
        'train'
    """

    source: str = "wiki-leads"
    """A packaged corpus, a file, a folder, a glob (.txt, .jsonl, .parquet), several of these joined by +
    (wikitext-2+wiki-leads), or a hub dataset `owner/name`."""
    subset: str | None = None
    """Configuration of a hub dataset, e.g. sample-10BT of FineWeb."""
    revision: str | None = None
    """Revision of a hub dataset; the newest by default. The commit is recorded in both cases."""
    hub_split: str = "train"
    """Which of a hub dataset's own splits to read."""
    text_field: str = "text"
    """Field or column that holds the text (.jsonl, .parquet and hub datasets)."""
    topic_field: str | None = None
    """Field or column that holds a topic label, if there is one."""
    document_separator: str | None = None
    """String that splits a .txt file into documents; by default each file is one document."""
    split: Split = "train"
    """Read the training documents or the held-out documents."""
    held_out_fraction: float = 0.05
    """Share of documents to hold out. Whether a document is held out depends only on its text, not on the seed."""
    seed: int | None = 0
    """Seed of the shuffle; None keeps the order of the source."""
    shuffle_buffer: int = 16384
    """Size of the shuffle buffer in documents; a smaller corpus is shuffled completely."""
    packing: Packing = "packed"
    """Pack consecutive documents into full blocks, or keep documents separate."""
    block_length: int = 256
    """Tokens per block; with packing=separate, the maximum sequence length."""

    def __post_init__(self) -> None:
        if self.block_length < 2:
            raise CorpusError(f"block_length={self.block_length} is too short; use at least 2 tokens")
        if not 0 <= self.held_out_fraction < 1:
            raise CorpusError(f"held_out_fraction={self.held_out_fraction} must be in [0, 1); use e.g. 0.05")
        if self.shuffle_buffer < 1:
            raise CorpusError(
                f"shuffle_buffer={self.shuffle_buffer} must be at least 1; use seed=None to keep the order"
            )
        if self.split == "held_out" and self.held_out_fraction == 0:
            raise CorpusError("held_out_fraction=0 leaves split=held_out empty; use a share such as 0.05")
