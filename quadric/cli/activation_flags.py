"""Flags that decide which activations are read: shared by every command that runs the language model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from quadric.activations import ActivationConfig
    from quadric.corpus import CorpusConfig


@dataclass(frozen=True, kw_only=True)
class ActivationFlags:
    """Which model reads which text, and which tokens are kept."""

    model: str = "smollm2"
    """A hub id, a folder, a .gguf file, or the embedded smollm2."""
    model_revision: str | None = None
    """Revision of a hub model; recorded as a commit."""
    model_dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the model; auto is float32 on a CPU and the checkpoint's own on an accelerator."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one."""

    corpus: str = "wiki-leads"
    """wiki-leads, wikitext-2, a file, folder or glob (.txt, .jsonl, .parquet), or a hub dataset owner/name."""
    subset: str | None = None
    """Configuration of a hub dataset, e.g. sample-10BT of FineWeb."""
    corpus_revision: str | None = None
    """Revision of a hub dataset; recorded as a commit."""
    hub_split: str = "train"
    """Which of a hub dataset's own splits to read."""
    text_field: str = "text"
    """Field or column that holds the text."""
    document_separator: str | None = None
    """Cuts a .txt file into documents, e.g. $'\\n\\n'; a file is one document if left out."""
    split: Literal["train", "held_out"] = "train"
    """The documents to train on, or the held-out ones."""
    held_out_fraction: float = 0.05
    """Share of the documents held out; a document's text alone decides."""
    packing: Literal["packed", "separate"] = "packed"
    """Fill every block with consecutive documents, or keep documents apart."""
    block_length: int = 256
    """Tokens a block."""
    seed: int = 0
    """Decides the order of documents."""

    prepend_bos: Literal["auto", "always", "never"] = "auto"
    """Put a BOS before every sequence; auto does what the tokenizer does."""
    bos: Literal["keep", "drop"] = "drop"
    """Vectors at that BOS."""
    special_tokens: Literal["keep", "drop"] = "drop"
    """Vectors at all other special tokens."""
    outliers: Literal["keep", "drop", "clip"] = "drop"
    """Vectors (attention sinks) longer than outlier-factor medians of their sequence."""
    outlier_factor: float = 10.0
    """How many medians long an outlier is."""
    sequences_per_forward: int = 8
    """Sequences that the language model reads at once."""

    def activation_config(self, layers: str) -> "ActivationConfig":
        """What these flags ask for, read at the given hook points."""
        from quadric.activations import ActivationConfig, TokenRules

        rules: TokenRules = TokenRules(
            prepend_bos=self.prepend_bos,
            bos=self.bos,
            special_tokens=self.special_tokens,
            outliers=self.outliers,
            outlier_factor=self.outlier_factor,
        )
        return ActivationConfig(
            model=self.model,
            model_revision=self.model_revision,
            model_dtype=self.model_dtype,
            hook_points=layers,
            corpus=self._corpus_config(),
            rules=rules,
            sequences_per_forward=self.sequences_per_forward,
        )

    def _corpus_config(self) -> "CorpusConfig":
        from quadric.corpus import CorpusConfig

        return CorpusConfig(
            source=self.corpus,
            subset=self.subset,
            revision=self.corpus_revision,
            hub_split=self.hub_split,
            text_field=self.text_field,
            document_separator=self.document_separator,
            split=self.split,
            held_out_fraction=self.held_out_fraction,
            packing=self.packing,
            block_length=self.block_length,
            seed=self.seed,
        )
