"""Claim: direction in float16 and length in float32 store any activation as accurately as float16 stores small ones.

The reference is a cache of smollm2 in float32, harvested on first use. The same rows are stored as they used to be
(float16 at their own length) and as they are now, and compared: angle and length of every vector, error of a dictionary
trained on float32 when it reads them, dictionaries trained on them, bytes per token, and reading speed.

    python benchmarks/bench_storage.py
    python benchmarks/bench_storage.py --cache runs/gemma --held-out runs/gemma-held-out --name gemma3-270m
"""

import argparse
import hashlib
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from measure import alternate, write_table
from safetensors.torch import load_file, save
from torch import Tensor

import quadric
from quadric.cli import main as command
from quadric.data import ActivationCache, BatchSize, CachedStream
from quadric.data.cache import COLUMNS
from quadric.data.manifest import CacheError, Layout, Manifest, write_manifest
from quadric.data.settings import StoredDtype
from quadric.data.shards import stored_vectors

WORK = Path(tempfile.gettempdir()) / "quadric-benchmarks"
TRAIN, HELD_OUT, STEPS, BATCH = 32_768, 8_192, 150, 2_048
BEFORE, NOW = "float16, own length (before)", "float16, direction and length (default)"
STORAGE: dict[str, tuple[StoredDtype, bool]] = {
    "float32": ("float32", False),
    BEFORE: ("float16", False),
    NOW: ("float16", True),
    "bfloat16, direction and length": ("bfloat16", True),
}


def harvested(split: str, tokens: int) -> Path:
    """Folder with smollm2's activations in float32."""
    folder = WORK / f"smollm2-15-float32-{split}"
    arguments = ["harvest", "--layers", "15", "--split", split, "--tokens", str(tokens), "--dtype", "float32"]
    if command([*arguments, "--out", str(folder)]) != 0:
        raise SystemExit("harvesting the activations failed; see the error above")
    return folder


def restored(source: Path, folder: Path, dtype: StoredDtype, unit_vectors: bool) -> Path:
    """The shards of a float32 cache in another storage."""
    manifest = ActivationCache(source).manifest
    layout = replace(manifest.layout, dtype=dtype, unit_vectors=unit_vectors)
    shards = []
    for shard in manifest.shards:
        data = save(_tensors(load_file(source / shard.file), manifest, layout))
        (folder / shard.file).write_bytes(data)
        shards.append(replace(shard, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))
    write_manifest(folder, replace(manifest, layout=layout, shards=tuple(shards)))
    return folder


def _tensors(tensors: dict[str, Tensor], manifest: Manifest, layout: Layout) -> dict[str, Tensor]:
    vectors: dict[str, Tensor] = {}
    for name in manifest.provenance.hook_points:
        vectors |= stored_vectors(tensors[f"activations.{name}"], layout, name)
    return {**vectors, **{name: tensors[name] for name in (*COLUMNS, "sequence_tokens")}}


def rows_of(folder: Path, tokens: int) -> Float[Tensor, "n d"]:
    """The first rows of a cache, in order."""
    stream = CachedStream(ActivationCache(folder), batch=BatchSize(tokens=tokens), seed=None)
    return next(iter(stream)).activations[stream.hook_points[0]]


def one_epoch(folder: Path) -> Callable[[], None]:
    """Read all rows shuffled, as training does; shards are checked and mapped beforehand."""
    cache = ActivationCache(folder)
    for number in range(len(cache.manifest.shards)):
        cache.shard(number)

    def read() -> None:
        for _ in CachedStream(cache, batch=BatchSize(tokens=BATCH), prefetch=0):
            pass

    return read


def angles(x: Float[Tensor, "n d"], reference: Float[Tensor, "n d"]) -> str:
    """Median and largest 1 - cos of the angle to the reference, in float64."""
    wrong = 1 - torch.cosine_similarity(x.double(), reference.double())
    return f"{wrong.median():.1e} ({wrong.max():.1e})"


def lengths(x: Float[Tensor, "n d"], reference: Float[Tensor, "n d"]) -> str:
    """Largest relative error of a vector's length."""
    exact = reference.double().norm(dim=1)
    return f"{((x.double().norm(dim=1) - exact).abs() / exact).max():.1e}"


def trained(x: Float[Tensor, "n d"], seed: int = 0) -> quadric.BilinearAutoencoder:
    """A small composite dictionary."""
    return quadric.fit(x, n_latents=256, steps=STEPS, batch_tokens=BATCH, seed=seed, progress=False)


def error_of(ae: quadric.BilinearAutoencoder, x: Float[Tensor, "n d"]) -> float:
    return float(quadric.evaluate(ae, x).error)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, help="cache in float32, by default of smollm2")
    parser.add_argument("--held-out", type=Path, help="another one, of held-out text")
    parser.add_argument("--name", default="smollm2")
    options = parser.parse_args()
    train = options.cache or harvested("train", TRAIN)
    held_out = rows_of(options.held_out or harvested("held_out", HELD_OUT), HELD_OUT)
    with tempfile.TemporaryDirectory() as temporary:
        report(options.name, train, held_out, Path(temporary))


def report(name: str, train: Path, held_out: Float[Tensor, "n d"], work: Path) -> None:
    rows, readers = [], {}
    reference = rows_of(train, TRAIN)
    ae = trained(reference)
    exact, other_seed = error_of(ae, held_out), error_of(trained(reference, seed=1), held_out)
    for storage, (dtype, unit_vectors) in STORAGE.items():
        folder = work / str(len(rows))
        folder.mkdir()
        try:
            restored(train, folder, dtype, unit_vectors)
        except CacheError as problem:
            rows.append([storage, str(problem).partition(";")[0], *["–"] * 5])
            continue
        cache, x = ActivationCache(folder), rows_of(folder, TRAIN)
        size = sum(shard.bytes for shard in cache.manifest.shards) / len(cache)
        change, again = error_of(ae, x) - error_of(ae, reference), error_of(trained(x), held_out) - exact
        rows.append(
            [storage, angles(x, reference), lengths(x, reference), f"{change:+.1e}", f"{again:+.1e}", f"{size:,.0f}"]
        )
        readers[storage] = one_epoch(folder)
    times = alternate(readers)
    compared = times[BEFORE if BEFORE in times else "float32"]
    for row in rows:
        if row[0] in times:
            ratio = statistics.median(a / b for a, b in zip(compared, times[row[0]], strict=True))
            speed = len(ActivationCache(train)) / statistics.median(times[row[0]])
            row.append(f"{ratio:.2f} ({speed:,.0f} tokens/s)")
    largest = reference.abs().max()
    write_table(
        f"storage-{name}",
        f"Storage of activations: {name}",
        [
            "storage",
            "1 − cos, median (largest)",
            "largest relative error of a length",
            "change of the dictionary's error on these tokens",
            "held-out error when trained on them, minus that from float32",
            "bytes per token",
            f"reading speed relative to {'before' if BEFORE in times else 'float32'}",
        ],
        rows,
        f"{len(reference):,} tokens of width {reference.shape[1]}; the largest coordinate is {largest:,.0f}, the "
        f"largest norm {reference.norm(dim=1).max():,.0f}. The dictionary is composite, k = 256, {STEPS} steps of "
        f"{BATCH:,} tokens, and has error {exact:.4f} on {len(held_out):,} held-out tokens when trained and measured "
        f"in float32; another seed changes that by {other_seed - exact:+.1e}. Reading: whole epochs of shuffled "
        f"batches of {BATCH:,} tokens without prefetching, from memory-mapped files that are in the page cache; ratios "
        "are medians over interleaved rounds. "
        "`python benchmarks/bench_storage.py`",
    )


if __name__ == "__main__":
    main()
