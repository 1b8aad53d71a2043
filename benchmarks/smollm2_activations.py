"""Activations for the benchmarks: smollm2 on the packaged text, residual stream into layer 15."""

import tempfile
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.cli import main as quadric
from quadric.data import ActivationCache

CACHE = Path(tempfile.gettempdir()) / "quadric-benchmarks" / "smollm2-15"
LAYER = 15
HELD_OUT = 8192


def layer_activations(n_tokens: int) -> Float[Tensor, "n d"]:
    """The first rows of the cache in float32; harvested on first use, at about a thousand tokens per second."""
    arguments = ["harvest", "--layers", str(LAYER), "--tokens", str(n_tokens), "--out", str(CACHE)]
    missing = not (CACHE / "manifest.json").exists() or len(ActivationCache(CACHE)) < n_tokens
    if missing and quadric(arguments) != 0:
        raise SystemExit("harvesting the activations failed; see the error above")
    cache, rows = ActivationCache(CACHE), []
    for number, shard in enumerate(cache.manifest.shards):
        rows.append(cache.shard(number).vectors(cache.hook_points[0], torch.arange(shard.rows)))
        if sum(map(len, rows)) >= n_tokens:
            break
    return torch.cat(rows)[:n_tokens]


def batches(tokens: Float[Tensor, "n d"], size: int, steps: int, seed: int = 0) -> list[Int[Tensor, " b"]]:
    """Row indices of `steps` seeded batches, drawn epoch by epoch without the held-out rows."""
    generator = torch.Generator().manual_seed(seed)
    n_rows, order = len(tokens) - HELD_OUT, torch.empty(0, dtype=torch.long)
    while len(order) < size * steps:
        order = torch.cat([order, torch.randperm(n_rows, generator=generator)])
    return [order[start * size : (start + 1) * size] for start in range(steps)]


def held_out(tokens: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
    """The last rows, which `batches` never returns."""
    return tokens[-HELD_OUT:]
