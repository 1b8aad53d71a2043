"""`quadric harvest`: activations of a language model, written to a folder."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from quadric.activations import ActivationConfig
    from quadric.activations.harvesting import HarvestReport
    from quadric.activations.token_rules import TokenCounts
    from quadric.corpus import CorpusConfig


@dataclass(frozen=True, kw_only=True)
class Harvest:
    """Write a language model's activations on some text to a folder; go on where an earlier call ended.

    Example: quadric harvest --model smollm2 --layers 9,15 --tokens 20000 --out runs/harvest
    """

    layers: str
    """Comma-separated hook points: 9,15 or layers.18 (residual stream into a layer), blocks.5.hook_resid_post,
    model.layers.5.mlp, resid_mid.5 ..."""
    tokens: int
    """Token vectors to store."""
    out: Path
    """Folder of the cache."""
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

    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    """Number format on disk."""
    sequences_per_forward: int = 8
    """Sequences that the language model reads at once."""
    sequences_per_shard: int = 32
    """Sequences a file; what a killed harvest may have to do again."""
    verify: bool = False
    """Read all shards back in the end and compare their checksums."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from quadric.activations import ActivationCache, HarvestConfig, harvest
        from quadric.activations.models import preparation
        from quadric.cli.token_progress import token_progress

        config = self._activation_config()
        storage = HarvestConfig(tokens=self.tokens, dtype=self.dtype, sequences_per_shard=self.sequences_per_shard)
        if (first := preparation(self.model)) is not None:
            print(first, file=sys.stderr)
        try:
            with token_progress("harvest") as show:
                report = harvest(config, storage, self.out, device=self.device, on_progress=show)
        except KeyboardInterrupt:
            print(f"\nthe shards in {self.out} stay valid; the same command goes on", file=sys.stderr)
            raise
        if self.verify:
            ActivationCache(self.out).verify()
        if self.json:
            print(json.dumps(_as_json(report, self.out), indent=1))
        else:
            _print(report, self)
        return 0

    def _activation_config(self) -> "ActivationConfig":
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
            hook_points=self.layers,
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


def _print(report: "HarvestReport", asked: Harvest) -> None:
    manifest = report.manifest
    size = sum(shard.bytes for shard in manifest.shards)
    if report.nothing_to_do:
        print(f"Nothing is left to do: {asked.out} holds {manifest.rows:,} tokens of the {asked.tokens:,} asked for.")
    else:
        added = manifest.rows - report.tokens_before
        print(f"Stored {added:,} tokens in {asked.out}, {manifest.rows:,} in all ({size / 1e6:,.1f} MB).")
    points = ", ".join(manifest.provenance.hook_points)
    print(f"Hook points: {points}; {manifest.layout.dtype}, d = {manifest.layout.d_model}.")
    print(_account(manifest.counts, asked))
    if (beyond := manifest.counts.kept - manifest.rows) > 0:
        print(f"{beyond:,} of these lie beyond the number asked for and are not stored.")
    if manifest.exhausted and manifest.rows < asked.tokens:
        print(
            f"The corpus ended {asked.tokens - manifest.rows:,} tokens short; its last {manifest.tail_tokens:,} tokens "
            "did not fill a block. Give a larger corpus for more."
        )


def _account(counts: "TokenCounts", asked: Harvest) -> str:
    """What the token rules did, in one line."""
    fate = "clipped" if asked.outliers == "clip" else "dropped"
    by_place = ", ".join(f"{number:,} at {name}" for name, number in counts.outliers_at.items())
    return (
        f"Read {counts.positions:,} positions; dropped {counts.padding:,} padding, {counts.bos:,} BOS, "
        f"{counts.special:,} special tokens; {fate} {counts.outliers:,} outliers ({by_place}); kept {counts.kept:,}."
    )


def _as_json(report: "HarvestReport", folder: Path) -> dict[str, Any]:
    manifest = report.manifest
    return {
        "folder": str(folder),
        "nothing_to_do": report.nothing_to_do,
        "tokens": manifest.rows,
        "tokens_before": report.tokens_before,
        "shards": len(manifest.shards),
        "bytes": sum(shard.bytes for shard in manifest.shards),
        "corpus_exhausted": manifest.exhausted,
        "tail_tokens": manifest.tail_tokens,
        "counts": asdict(manifest.counts),
        "layout": asdict(manifest.layout),
        "provenance": manifest.provenance.to_dict(),
    }
