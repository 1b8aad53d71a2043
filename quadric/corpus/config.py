"""What decides which text is read, in which order, and how it is cut."""

from dataclasses import dataclass
from typing import Literal

Packing = Literal["packed", "separate"]
Split = Literal["train", "held_out"]


class CorpusError(ValueError):
    """The text that was asked for is missing, empty or unreadable."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text; its index is its place in the source, whatever the order in which it is read."""

    index: int
    text: str
    topic: str | None = None


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Which text, in which order, cut how."""

    source: str = "wiki-leads"
    """A packaged corpus, a file, a folder, a glob (.txt, .jsonl, .parquet), or a hub dataset `owner/name`."""
    subset: str | None = None
    """Configuration of a hub dataset, e.g. sample-10BT of FineWeb."""
    revision: str | None = None
    """Revision of a hub dataset; the newest if left out, and recorded as a commit either way."""
    hub_split: str = "train"
    """Which of a hub dataset's own splits to read."""
    text_field: str = "text"
    """Field or column that holds the text (.jsonl, .parquet and hub datasets)."""
    topic_field: str | None = None
    """Field or column that holds a topic label, if there is one."""
    document_separator: str | None = None
    """Cuts a .txt file into documents; a file is one document if left out."""
    split: Split = "train"
    """The documents to train on, or the held-out ones."""
    held_out_fraction: float = 0.05
    """Share of the documents held out. Membership depends on a document's text alone, not on the seed."""
    seed: int | None = 0
    """Seed of the order; None keeps the order of the source."""
    shuffle_buffer: int = 16384
    """Documents shuffled at a time; a corpus with fewer is shuffled whole."""
    packing: Packing = "packed"
    """Fill every block with consecutive documents, or keep documents apart."""
    block_length: int = 256
    """Tokens a block; with documents kept apart, the longest sequence."""

    def __post_init__(self) -> None:
        if self.block_length < 2:
            raise CorpusError(f"block_length={self.block_length} is too short; give at least 2 tokens")
        if not 0 <= self.held_out_fraction < 1:
            raise CorpusError(f"held_out_fraction={self.held_out_fraction} must be in [0, 1); e.g. 0.05")
        if self.shuffle_buffer < 1:
            raise CorpusError(f"shuffle_buffer={self.shuffle_buffer} must be at least 1; seed=None keeps the order")
        if self.split == "held_out" and self.held_out_fraction == 0:
            raise CorpusError("held_out_fraction=0 holds nothing out; give a share such as 0.05")
