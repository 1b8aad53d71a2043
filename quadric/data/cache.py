"""Read a cache of activations: memory-mapped, in any order, with the same batches for the same seed.

Shuffling works in windows: shards are shuffled, consecutive shards are grouped into windows of up to a given number of
rows, and rows are shuffled within each window. Only the row indices of a window or two are in memory, and only the
pages that a batch needs are read from disk.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from torch import Tensor

from quadric._io.files import sha256_of_file
from quadric.data.batches import (
    COLUMNS,
    ActivationBatch,
    BatchSize,
    check_rank,
    check_same_setup,
    prefetched,
)
from quadric.data.provenance import StreamProvenance
from quadric.data.storage import CacheError, Shard, damaged, read_manifest

OPEN_SHARDS = 128
WINDOW = 1 << 20


class OpenShard(NamedTuple):
    """A memory-mapped shard: a page is read from disk when it is first accessed."""

    activations: dict[str, Tensor]
    """As stored: directions if there are lengths, the vectors themselves otherwise."""
    lengths: dict[str, Tensor]
    columns: dict[str, Tensor]
    sequence_tokens: Tensor
    offsets: Tensor
    """First row of each sequence, followed by the number of rows."""

    def vectors(self, name: str, rows: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        """Some rows of a hook point in float32, at their own length."""
        stored = self.activations[name].index_select(0, rows).float()
        return stored.mul_(self.lengths[name].index_select(0, rows)[:, None]) if self.lengths else stored


class ActivationCache:
    """A folder of activations written by `quadric harvest`.

    Args:
        folder: The folder.
        expected: Where the activations should come from; anything else is an error. By default every cache is accepted.

    Example:
        >>> from quadric.data import ActivationCache
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=500, out="cache")
        >>> cache = ActivationCache("cache")
        >>> len(cache), cache.hook_points, cache.d_model
        (500, ('resid_pre.2',), 32)
        >>> cache.verify()
    """

    def __init__(self, folder: str | Path, *, expected: StreamProvenance | None = None) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        self.provenance = self.manifest.provenance
        self.hook_points = self.provenance.hook_points
        self.d_model = self.manifest.layout.d_model
        if expected is not None:
            self._check_expected(expected)
        self.shard = lru_cache(maxsize=OPEN_SHARDS)(self._open_shard)
        self._verified: set[int] = set()

    def __len__(self) -> int:
        return self.manifest.rows

    def verify(self) -> None:
        """Read every shard and compare it with its recorded checksum."""
        for number in range(len(self.manifest.shards)):
            self._verify(number)

    def _verify(self, number: int, *, again: bool = True) -> None:
        """Check the size of a shard and, the first time or `again`, its checksum."""
        shard = self.manifest.shards[number]
        path = self.folder / shard.file
        whole = path.is_file() and path.stat().st_size == shard.bytes
        if whole and (again or number not in self._verified):
            whole = sha256_of_file(path) == shard.sha256
        if not whole:
            raise damaged(path)
        self._verified.add(number)

    def sequence_tokens(self, sequence: int) -> Int[Tensor, " l"]:
        """All tokens of a sequence, including those that the token rules dropped: the context of the kept ones."""
        for number, shard in enumerate(self.manifest.shards):
            if shard.first_sequence <= sequence < shard.first_sequence + shard.sequences:
                tokens = self.shard(number).sequence_tokens[sequence - shard.first_sequence]
                return tokens[tokens >= 0]
        raise CacheError(f"no sequence {sequence} in {self.folder}; take one of the sequences of its batches")

    def _check_expected(self, expected: StreamProvenance) -> None:
        """Raise unless the cache matches; it may hold more hook points than expected."""
        missing = [name for name in expected.hook_points if name not in self.hook_points]
        wrong = [line for line in self.provenance.differences(expected) if not line.startswith("hook_points:")]
        if missing:
            wrong.append(f"hook_points: stored {', '.join(self.hook_points)}, asked for {', '.join(missing)} too")
        if wrong:
            raise CacheError(
                f"the cache in {self.folder} does not match the requested activations ({'; '.join(wrong)}); "
                "harvest again, or request what it holds"
            )

    def _open_shard(self, number: int) -> OpenShard:
        """Map a shard into memory; the first time, it is read and compared with its recorded checksum."""
        self._verify(number, again=False)
        shard = self.manifest.shards[number]
        path = self.folder / shard.file
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
        except (SafetensorError, OSError) as problem:
            raise CacheError(f"{path} is damaged ({problem}); delete {path.parent} and harvest again") from None
        # A shape that broadcasts would repeat one row for all.
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(COLUMNS, (shard.rows,))
        for name in self.hook_points:
            shapes[f"activations.{name}"] = (shard.rows, self.d_model)
            if self.manifest.layout.unit_vectors:
                shapes[f"lengths.{name}"] = (shard.rows,)
        wrong = [name for name, shape in shapes.items() if name not in tensors or tensors[name].shape != shape]
        if wrong or len(tensors.get("sequence_tokens", ())) != shard.sequences:
            names = ", ".join(wrong or ["sequence_tokens"])
            raise CacheError(f"{path} does not fit its manifest ({names}); delete {path.parent} and harvest again")
        starts = torch.arange(shard.first_sequence, shard.first_sequence + shard.sequences + 1)
        return OpenShard(
            {name: tensors[f"activations.{name}"] for name in self.hook_points},
            {name: tensors[f"lengths.{name}"] for name in self.hook_points if self.manifest.layout.unit_vectors},
            {name: tensors[name] for name in COLUMNS},
            tensors["sequence_tokens"],
            torch.searchsorted(tensors["sequences"], starts),
        )


@dataclass(eq=False)
class CachedStream:
    """Batches of activations from a cache; see `ActivationStream` for its guarantees.

    Batch b of an epoch belongs to rank b mod world_size.

    Example:
        >>> from quadric.data import ActivationCache, BatchSize, CachedStream
        >>> stored = quadric.harvest("my-model", "texts.jsonl", layer=2, tokens=500, out="cache")
        >>> stream = CachedStream(ActivationCache("cache"), batch=BatchSize(tokens=200))
        >>> [len(batch) for batch in stream]
        [200, 200, 100]
    """

    cache: ActivationCache
    _: KW_ONLY
    batch: BatchSize
    hook_points: tuple[str, ...] = ()
    """Which hook points to read; all of the cache by default."""
    seed: int | None = 0
    """Seed of the shuffling; None keeps the order in which the activations were stored."""
    rank: int = 0
    world_size: int = 1
    """Number of processes that share the stream."""
    repeat: bool = False
    """Start again at the end, in another order."""
    prefetch: int = 2
    """Batches read ahead."""
    window: int = WINDOW
    """Rows that are shuffled together."""

    def __post_init__(self) -> None:
        check_rank(self.rank, self.world_size)
        cache = self.cache
        self.hook_points = self.hook_points or cache.hook_points
        self.d_model, self.provenance = cache.d_model, cache.provenance
        for name in self.hook_points:
            if name not in cache.hook_points:
                raise CacheError(f"no hook point {name} in {cache.folder}; it holds {', '.join(cache.hook_points)}")
        if self.repeat and self.n_batches <= self.rank:
            raise CacheError(
                f"{cache.folder} holds {self.n_batches} batches, too few for world_size={self.world_size}; "
                "harvest more tokens, or give smaller batches"
            )
        self._epoch, self._next = 0, 0

    @property
    def n_batches(self) -> int:
        """Batches per epoch, over all ranks."""
        return -(-sum(self._units(shard) for shard in self.cache.manifest.shards) // self.batch.count)

    def __iter__(self) -> Iterator[ActivationBatch]:
        ready = ((epoch, number, batch.pinned()) for epoch, number, batch in self._batches(self._epoch, self._next))
        for epoch, number, batch in prefetched(ready, self.prefetch):
            self._epoch, self._next = epoch, number + 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"setup": self._setup(), "epoch": self._epoch, "batch": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._check_rows(state)
        check_same_setup(state["setup"], self._setup())
        self._epoch, self._next = state["epoch"], state["batch"]

    def _check_rows(self, state: dict[str, Any]) -> None:
        if (rows := state["setup"].get("rows")) != len(self.cache):
            raise CacheError(
                f"{self.cache.folder} holds {len(self.cache)} tokens and held {rows} when this run read it, so their "
                f"order is another one; harvest --tokens {rows} into another folder and give that with --cache"
            )

    def _setup(self) -> dict[str, Any]:
        return {
            "kind": "cached",
            "batch": [self.batch.count, self.batch.unit],
            "rows": len(self.cache),
            "seed": self.seed,
            "window": self.window,
            "rank": self.rank,
            "world_size": self.world_size,
        }

    def _batches(self, epoch: int, start: int) -> Iterator[tuple[int, int, ActivationBatch]]:
        while True:
            order = _Order(self, epoch)
            for number in range(start, self.n_batches):
                if number % self.world_size == self.rank:
                    yield epoch, number, self._read(order.units(number * self.batch.count, self.batch.count))
            if not self.repeat:
                return
            epoch, start = epoch + 1, 0

    def _units(self, shard: Shard) -> int:
        return shard.rows if self.batch.unit == "tokens" else shard.sequences

    def _read(self, units: Int[Tensor, "u 2"]) -> ActivationBatch:
        """The rows of the given (shard, unit) pairs, in the given order; each shard is read once."""
        shards, rows = self._rows(units)
        vectors = {name: torch.empty(len(rows), self.d_model) for name in self.hook_points}
        columns = {name: torch.empty(len(rows), dtype=torch.int64) for name in COLUMNS}
        for number in sorted(set(shards.tolist())):
            here = (shards == number).nonzero().squeeze(1)
            shard = self.cache.shard(number)
            for name, target in vectors.items():
                target.index_copy_(0, here, shard.vectors(name, rows[here]))
            for name, target in columns.items():
                target.index_copy_(0, here, shard.columns[name].index_select(0, rows[here]).long())
        return ActivationBatch(vectors, **columns)

    def _rows(self, units: Int[Tensor, "u 2"]) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        if self.batch.unit == "tokens":
            return units[:, 0], units[:, 1]
        starts = torch.stack([self.cache.shard(int(shard)).offsets[unit] for shard, unit in units])
        ends = torch.stack([self.cache.shard(int(shard)).offsets[unit + 1] for shard, unit in units])
        shards = units[:, 0].repeat_interleave(ends - starts)
        return shards, torch.cat([torch.arange(int(a), int(b)) for a, b in zip(starts, ends, strict=True)])


class _Order:
    """The order of one epoch: the (shard, unit) pair at each position. A unit is a row or a sequence."""

    def __init__(self, stream: CachedStream, epoch: int) -> None:
        self.seed = stream.seed
        self.epoch = epoch
        self.sizes = [stream._units(shard) for shard in stream.cache.manifest.shards]
        self.windows = self._windows(stream)
        self._members = lru_cache(maxsize=2)(self._members_of)

    def units(self, start: int, count: int) -> Int[Tensor, "u 2"]:
        """The units at positions `start` to `start + count`; fewer at the end of the epoch."""
        found, first = [torch.empty(0, 2, dtype=torch.int64)], 0
        for number, window in enumerate(self.windows):
            size = sum(self.sizes[shard] for shard in window)
            if first < start + count and start < first + size:
                found.append(self._members(number)[max(0, start - first) : start + count - first])
            first += size
        return torch.cat(found)

    def _windows(self, stream: CachedStream) -> list[list[int]]:
        shards = list(range(len(self.sizes)))
        if self.seed is None:
            return [[shard] for shard in shards]
        order = torch.randperm(len(shards), generator=self._generator(0)).tolist()
        windows: list[list[int]] = []
        rows = stream.window
        for shard in order:
            size = stream.cache.manifest.shards[shard].rows
            if rows + size > stream.window:
                windows.append([])
                rows = 0
            windows[-1].append(shard)
            rows += size
        return windows

    def _members_of(self, number: int) -> Int[Tensor, "u 2"]:
        window = self.windows[number]
        members = torch.cat(
            [torch.stack([torch.full((self.sizes[s],), s), torch.arange(self.sizes[s])], dim=1) for s in window]
        )
        if self.seed is None:
            return members
        return members[torch.randperm(len(members), generator=self._generator(number + 1))]

    def _generator(self, part: int) -> torch.Generator:
        # SeedSequence instead of a sum: epoch 1 of seed 0 must differ from epoch 0 of seed 1.
        mixed = np.random.SeedSequence([self.seed or 0, self.epoch, part]).generate_state(1)[0]
        return torch.Generator().manual_seed(int(mixed))
