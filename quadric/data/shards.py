"""One file of a cache: the kept tokens of a few forward passes, and all tokens that those passes read."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import pad

from quadric._io.files import write_atomically
from quadric.data.batches import COLUMNS, concatenated
from quadric.data.live_stream import ForwardPass
from quadric.data.manifest import Layout, Shard
from quadric.data.token_rules import TokenCounts

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
COLUMN_DTYPES = {"token_ids": torch.int32, "positions": torch.int32}
NO_TOKEN = -1
PASSES = "passes"
"""Metadata of a shard: the token counts of each of its forward passes, so that it can be cut without the model."""


def write_shard(path: Path, passes: list[ForwardPass], room: int, layout: Layout) -> Shard:
    """Write the first `room` tokens of some forward passes."""
    tensors, counts = shard_tensors(passes, room, layout), [each.counts for each in passes]
    return _write(path, tensors, counts, passes[0].sequences.first, cut=len(tensors["token_ids"]) == room)


def cut_shard(source: Path, target: Path, shard: Shard, room: int, layout: Layout) -> Shard:
    """Write the first `room` tokens of a shard to another file: the bytes that `write_shard` would have written."""
    with safe_open(source, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
        counts = [TokenCounts(**each) for each in json.loads(file.metadata()[PASSES])]
    # A harvest ends with the forward pass that reaches the wanted number of tokens.
    n_passes = 1 + sum(kept < room for kept in accumulate(each.kept for each in counts))
    sequences = tensors.pop("sequence_tokens")[: n_passes * layout.sequences_per_forward]
    length = int((sequences != NO_TOKEN).sum(dim=1).max())
    cut = {name: values[:room].contiguous() for name, values in tensors.items()}
    cut["sequence_tokens"] = sequences[:, :length].contiguous()
    return _write(target, cut, counts[:n_passes], shard.first_sequence, cut=True)


def _write(path: Path, tensors: dict[str, Tensor], counts: Sequence[TokenCounts], first: int, *, cut: bool) -> Shard:
    data = save(tensors, {PASSES: json.dumps([asdict(each) for each in counts])})
    write_atomically(path, data)
    return Shard(
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        rows=len(tensors["token_ids"]),
        first_sequence=first,
        sequences=len(tensors["sequence_tokens"]),
        counts=sum(counts, TokenCounts()),
        cut=cut,
    )


def shard_tensors(passes: list[ForwardPass], room: int, layout: Layout) -> dict[str, Tensor]:
    """Contents of a shard: up to `room` token vectors with their positions, and all tokens of their sequences."""
    batch = concatenated([each.batch for each in passes]).rows(0, room)
    columns = {
        name: getattr(batch, name).to(COLUMN_DTYPES.get(name, torch.int64)).cpu().contiguous() for name in COLUMNS
    }
    vectors: dict[str, Tensor] = {}
    for name, values in batch.activations.items():
        vectors |= stored_vectors(values, layout, name)
    return {**vectors, **columns, "sequence_tokens": _sequence_tokens(passes)}


def stored_vectors(values: Float[Tensor, "n d"], layout: Layout, name: str) -> dict[str, Tensor]:
    """The tensors that hold the vectors of one hook point: directions and lengths, or the vectors themselves."""
    dtype = DTYPES[layout.dtype]
    if not layout.unit_vectors:
        return {f"activations.{name}": values.to(dtype).cpu().contiguous()}
    lengths = torch.linalg.vector_norm(values, dim=1)  # finite and positive: the token rules refuse others
    directions = (values / lengths[:, None]).to(dtype)  # at most 1, so no dtype overflows
    return {
        f"activations.{name}": directions.cpu().contiguous(),
        f"lengths.{name}": lengths.cpu().contiguous(),
    }


def _sequence_tokens(passes: list[ForwardPass]) -> Int[Tensor, "s l"]:
    """All token ids that the model read, so that the context of a kept token can be shown; padding is -1."""
    length = max(each.sequences.tokens.shape[1] for each in passes)
    rows = [each.sequences.tokens.masked_fill(~each.sequences.mask, NO_TOKEN) for each in passes]
    return torch.cat([pad(row, (0, length - row.shape[1]), value=NO_TOKEN) for row in rows]).int().cpu().contiguous()
