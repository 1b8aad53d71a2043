"""`quadric harvest`: activations of a language model, written to a folder."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quadric.cli.activation_flags import ActivationFlags

if TYPE_CHECKING:
    from quadric.activations.harvesting import HarvestReport
    from quadric.activations.token_rules import TokenCounts


@dataclass(frozen=True, kw_only=True)
class Harvest(ActivationFlags):
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
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    """Number format on disk."""
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

        config = self.activation_config(self.layers)
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
