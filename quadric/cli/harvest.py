"""`quadric harvest`: activations of a language model, written to a folder."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, Taken, flag_group
from quadric.cli.output import announce, announce_preparation, say, say_json
from quadric.cli.run_flags import ActivationFlags, layers_flag, model_flags
from quadric.data.settings import HarvestConfig

if TYPE_CHECKING:
    from quadric.data.harvesting import HarvestReport
    from quadric.data.token_rules import TokenCounts


ModelFlags = model_flags(layers_flag(default=None))
StorageFlags = flag_group("StorageFlags", Taken(HarvestConfig, required=("tokens",)))
ModelGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=ModelFlags)]
StorageGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=StorageFlags)]


@dataclass(frozen=True, kw_only=True)
class Harvest(ActivationFlags):
    """Write a language model's activations on some text to a folder; continue where an earlier call ended.

    Example: quadric harvest --model smollm2 --layers 9,15 --tokens 20000 --out runs/harvest
             quadric harvest --layers 15 --tokens 20000 --out runs/harvest --shard 0/2    (and 1/2 elsewhere)
    """

    model: ModelGroup
    """The language model, and where its activations are read."""
    storage: StorageGroup
    """How many activations are stored, and in which format."""
    out: Path
    """Folder of the cache."""
    verify: bool = False
    """Read all shards back in the end and compare their checksums."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        announce("harvest", f"preparing to read {self.model_name}")
        from quadric.cli.progress import progress
        from quadric.data import ActivationCache, harvest_to_folder

        storage, out = HarvestConfig(**self.storage.given(HarvestConfig)), self.out
        config = self.activation_config()
        announce_preparation(self.model_name)
        try:
            with progress() as display:
                report = harvest_to_folder(config, storage, out, device=self.device, on_progress=display.report)
        except KeyboardInterrupt:
            say(f"\nthe shards in {out} stay valid; the same command continues from there", file=sys.stderr)
            raise
        if self.verify:
            ActivationCache(report.folder if report.joined is None else out).verify()
        if self.json:
            say_json(_as_json(report, out, storage.shard), indent=1)
        else:
            _print(report, out, storage, config.rules.outliers)
        return 0


def _print(report: "HarvestReport", out: Path, storage: HarvestConfig, outliers: str) -> None:
    manifest, tokens, is_part = report.manifest, storage.tokens, not storage.part.is_whole
    place = f"part {storage.part} of {out}" if is_part else str(out)
    if report.nothing_to_do:
        asked = "" if is_part else f" of the {tokens:,} asked for"
        say(f"Nothing is left to do: {place} holds {manifest.rows:,} tokens{asked}.")
    else:
        added, size = manifest.rows - report.tokens_before, sum(shard.bytes for shard in manifest.shards)
        say(f"Stored {added:,} tokens in {place}, {manifest.rows:,} in all ({size / 1e6:,.1f} MB).")
    if report.joined is not None:
        say(f"All parts are there and joined: {out} holds {report.joined.rows:,} tokens.")
    elif is_part:
        say(f"Not complete yet: {report.waiting}.")
    if is_part:
        return
    points = ", ".join(manifest.provenance.hook_points)
    lengths = " directions, float32 lengths" if manifest.layout.unit_vectors else ""
    say(f"Hook points: {points}; {manifest.layout.dtype}{lengths}, d = {manifest.layout.d_model}.")
    say(_account(manifest.counts, outliers))
    if (beyond := manifest.counts.kept - manifest.rows) > 0:
        say(f"{beyond:,} of these lie beyond the number asked for and are not stored.")
    if manifest.exhausted and manifest.rows < tokens:
        say(
            f"The corpus ended {tokens - manifest.rows:,} tokens short; its last {manifest.tail_tokens:,} tokens "
            "did not fill a block. Give a larger corpus for more."
        )


def _account(counts: "TokenCounts", outliers: str) -> str:
    """How many tokens each rule dropped, in one line."""
    fate = "clipped" if outliers == "clip" else "dropped"
    by_place = ", ".join(f"{number:,} at {name}" for name, number in counts.outliers_at.items())
    return (
        f"Read {counts.positions:,} positions; dropped {counts.padding:,} padding, {counts.bos:,} BOS, "
        f"{counts.special:,} special tokens; {fate} {counts.outliers:,} outliers ({by_place}); kept {counts.kept:,}."
    )


def _as_json(report: "HarvestReport", folder: Path, shard: str | None) -> dict[str, Any]:
    manifest = report.manifest
    joined = {"shard": shard, "joined": report.joined is not None, "waiting": report.waiting}
    return {
        "folder": str(folder),
        **(joined if shard is not None else {}),
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
