"""Settings of this stage as plain dataclasses that do not import torch.

The command line generates its flags and their help from them, and help pages must not wait for torch.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from quadric.data.tokenizer import Tokenizer

ModelDtype = Literal["auto", "float32", "bfloat16", "float16"]
StoredDtype = Literal["float16", "bfloat16", "float32"]
Packing = Literal["packed", "separate"]
Split = Literal["train", "held_out"]

OUTLIER_MEDIAN = "over the tokens of a sequence that the other rules keep"


class CorpusError(ValueError):
    """The requested text is missing, empty or unreadable."""


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


@dataclass(frozen=True, kw_only=True)
class TokenRules:
    """Which tokens are dropped.

    Example:
        >>> from quadric.data import TokenRules
        >>> everything = TokenRules(bos="keep", special_tokens="keep", outliers="keep")
        >>> acts = quadric.harvest("my-model", ["Monday comes."], layer=2, rules=everything)
        >>> len(acts)
        13
    """

    prepend_bos: Literal["auto", "always", "never"] = "auto"
    """Whether to prepend a BOS token to every sequence; auto follows the model's tokenizer."""
    bos: Literal["keep", "drop"] = "drop"
    """Whether to keep the activation at that BOS token."""
    special_tokens: Literal["keep", "drop"] = "drop"
    """Whether to keep activations at other special tokens, such as the separators between packed documents."""
    outliers: Literal["keep", "drop", "clip"] = "drop"
    """What to do with activations (attention sinks) whose norm exceeds outlier-factor times the median norm of their
    sequence; clip scales them down to that norm."""
    outlier_factor: float = 10.0
    """Multiple of the median norm above which an activation is an outlier."""

    def __post_init__(self) -> None:
        if not self.outlier_factor > 1:
            raise ValueError(f"outlier_factor={self.outlier_factor} must exceed 1; outliers=keep turns the rule off")

    def bos_of(self, tokenizer: "Tokenizer") -> int | None:
        """Id of the BOS token to prepend to every sequence, or None."""
        if self.prepend_bos == "always" and tokenizer.bos is None:
            raise ValueError("prepend_bos=always, but the tokenizer has no BOS token; use prepend_bos=auto or never")
        wanted = tokenizer.adds_bos if self.prepend_bos == "auto" else self.prepend_bos == "always"
        return tokenizer.bos if wanted else None

    def as_recorded(self, tokenizer: "Tokenizer") -> dict[str, Any]:
        """The rules as recorded in provenance: with 'auto' resolved and the fixed rules included."""
        return asdict(self) | {
            "prepend_bos": "always" if self.bos_of(tokenizer) is not None else "never",
            "separator": None if tokenizer.separator is None else tokenizer.decode(tokenizer.separator),
            "padding": "drop",
            "outlier_median": OUTLIER_MEDIAN,
        }


@dataclass(frozen=True, kw_only=True)
class ActivationConfig:
    """Which model, which text, which hook points, and which tokens are kept.

    Example:
        >>> from quadric.data import ActivationConfig
        >>> from quadric.data.corpus import CorpusConfig
        >>> text = CorpusConfig(source="texts.jsonl", block_length=128)
        >>> config = ActivationConfig(model="my-model", hook_points="1,mlp_out.2", corpus=text)
        >>> config.rules.outliers
        'drop'
    """

    model: str = "smollm2"
    """A hub id, a folder, a .gguf file, or the embedded smollm2."""
    model_revision: str | None = None
    """Revision of a hub model, by default the newest; the commit is recorded either way."""
    model_dtype: ModelDtype = "auto"
    """Data type of the model; auto is float32 on a CPU and the checkpoint's own type on an accelerator."""
    hook_points: str
    """Comma-separated hook points: 9,15 or layers.18 (residual stream into a layer), blocks.5.hook_resid_post,
    model.layers.5.mlp, resid_mid.5 ..."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    rules: TokenRules = field(default_factory=TokenRules)
    sequences_per_forward: int = 8
    """Sequences per forward pass of the language model."""

    def __post_init__(self) -> None:
        if self.sequences_per_forward < 1:
            raise ValueError(f"sequences_per_forward={self.sequences_per_forward} must be at least 1")


@dataclass(frozen=True, order=True)
class HarvestPart:
    """One of `count` parts of a harvest, counted from 0."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def folder(self) -> str:
        """Name of the folder of this part."""
        return f"part-{self.number}-of-{self.count}"

    def share(self, tokens: int) -> int:
        """How many of the tokens of all parts together this one stores."""
        return tokens // self.count + (self.number < tokens % self.count)

    def shard(self, index: int) -> int:
        """The number in the whole cache of this part's shard."""
        return self.number + index * self.count

    @property
    def is_whole(self) -> bool:
        return self.count == 1

    @classmethod
    def parse(cls, text: str) -> "HarvestPart":
        """A part as it is written on the command line, e.g. 3/8."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if match is None or not int(match[1]) < int(match[2]):
            raise ValueError(f"shard={text} is not one of N parts; give 0/N to N-1/N, e.g. 0/8 to 7/8")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, kw_only=True)
class HarvestConfig:
    """How many activations are stored, and how.

    Example:
        >>> from quadric.data import HarvestConfig
        >>> HarvestConfig(tokens=1_000_000, shard="3/8").part
        HarvestPart(number=3, count=8)
    """

    tokens: int
    """Number of token activations to store."""
    dtype: StoredDtype = "float16"
    """Data type on disk. The 16-bit types hold the direction of a vector, with its length beside it in float32, so
    that no activation is too large; float32 holds exactly what the model computed."""
    sequences_per_shard: int = 32
    """Sequences per file; an interrupted harvest loses at most one file of work."""
    shard: str | None = None
    """Harvest one of several parts, e.g. 3/8 for the fourth of eight, each by a worker of its own into the same folder;
    the last one to finish joins them. tokens is the number of all parts together."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens={self.tokens} is not positive; give at least 1")
        if self.sequences_per_shard < 1:
            raise ValueError(f"sequences_per_shard={self.sequences_per_shard} must be at least 1")
        if self.tokens < self.part.count:
            raise ValueError(f"tokens={self.tokens} is fewer than one per part; give at least {self.part.count}")

    @property
    def part(self) -> HarvestPart:
        """The part to harvest; 0/1 is everything."""
        return HarvestPart.parse("0/1" if self.shard is None else self.shard)
