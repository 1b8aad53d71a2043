"""The activations that users pass in: a tensor, chunks of tensors, a cache folder, or the result of `harvest`.

`as_activations` turns each of these into `Activations` with the same interface, so that `fit`, `evaluate` and
`collect_evidence` work with all of them. Rows in memory and chunks of rows have streams of their own; see
`ActivationStream` for their guarantees.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.data.batches import ActivationBatch, ActivationStream, BatchSize, check_same_setup
from quadric.data.cache import ActivationCache, CachedStream
from quadric.data.provenance import ROWS, StreamProvenance

REMEMBERED_ROWS = 32_768
"""Rows of an iterator that can be read twice; a lens is estimated from fewer."""


def checked_rows(rows: Any) -> Tensor:
    """A floating-point tensor (n, d), converted to at least float32; anything else is an error."""
    if not isinstance(rows, Tensor) or not rows.is_floating_point() or rows.ndim != 2 or 0 in rows.shape:
        kind = f"{rows.dtype} of shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ValueError(f"activations are {kind}; expected a floating-point tensor of shape (n, d), e.g. x.float()")
    return rows.detach().to(torch.promote_types(rows.dtype, torch.float32))


@dataclass(eq=False)
class RowStream:
    """Batches of rows in memory, shuffled differently in every epoch.

    A repeating stream drops the rows at the end of an epoch that do not fill a batch: a batch of a few rows gives no
    usable estimate of the density, and the next epoch contains these rows again.
    """

    rows: ActivationBatch
    provenance: StreamProvenance
    batch_tokens: int
    seed: int | None = 0
    """Seed of the shuffling; None keeps the order of the rows."""
    repeat: bool = False

    def __post_init__(self) -> None:
        self.batch_tokens = min(self.batch_tokens, len(self.rows))
        self.hook_points = tuple(self.rows.activations)
        self.d_model = next(iter(self.rows.activations.values())).shape[1]
        self._epoch, self._next = 0, 0

    def __iter__(self) -> Iterator[ActivationBatch]:
        while True:
            order = self._order()
            while self._next < self._n_batches():
                batch = slice(self._next * self.batch_tokens, (self._next + 1) * self.batch_tokens)
                self._next += 1
                yield self.rows.take(batch if order is None else order[batch])
            if not self.repeat:
                return
            self._epoch, self._next = self._epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        return {"setup": self._setup(), "epoch": self._epoch, "batch": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_same_setup(state["setup"], self._setup())
        self._epoch, self._next = state["epoch"], state["batch"]

    def _setup(self) -> dict[str, Any]:
        return {"kind": "rows", "rows": len(self.rows), "batch": self.batch_tokens, "seed": self.seed}

    def _n_batches(self) -> int:
        n_full, rest = divmod(len(self.rows), self.batch_tokens)
        return n_full if self.repeat or not rest else n_full + 1

    def _order(self) -> Tensor | None:
        if self.seed is None:
            return None
        mixed = np.random.SeedSequence([self.seed, self._epoch]).generate_state(1)[0]
        return torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(int(mixed)))


class RememberedChunks:
    """An iterator that can be read only once, with its first rows kept, so that they can be read again.

    A look at the width and at the mean of the first rows comes before the reading proper; nothing else goes back.
    """

    def __init__(self, chunks: Iterator[Tensor]) -> None:
        self._chunks = chunks
        self._kept: list[Tensor] = []
        self._is_past = False
        """Whether a chunk was read that was not kept."""

    def __iter__(self) -> Iterator[Tensor]:
        if self._is_past:
            raise ValueError(
                "these activations are an iterator, which has been read already; give a list of tensors, or a new "
                "iterator for every call"
            )
        yield from self._kept
        for chunk in self._chunks:
            if sum(map(len, self._kept)) < REMEMBERED_ROWS:
                self._kept.append(chunk)
            else:
                self._is_past, self._kept = True, []
            yield chunk


@dataclass(eq=False)
class ChunkStream:
    """Batches of exactly `batch_tokens` rows from an iterable of chunks, in order."""

    chunks: Iterable[Tensor]
    d_model: int
    provenance: StreamProvenance
    batch_tokens: int
    repeat: bool = False

    def __post_init__(self) -> None:
        self.hook_points = self.provenance.hook_points
        self._given = 0
        """Number of rows yielded since the start of the first epoch."""

    def __iter__(self) -> Iterator[ActivationBatch]:
        waiting: list[Tensor] = []
        skip = self._given
        for chunk in self._chunks():
            skipped = min(skip, len(chunk))
            skip -= skipped
            waiting.append(chunk[skipped:])
            while sum(map(len, waiting)) >= self.batch_tokens:
                joined = torch.cat(waiting)
                waiting = [joined[self.batch_tokens :]]
                yield self._batch(joined[: self.batch_tokens])
        rest = torch.cat(waiting) if waiting else torch.empty(0, self.d_model)
        if len(rest):
            yield self._batch(rest)

    def _chunks(self) -> Iterator[Tensor]:
        while True:
            for chunk in self.chunks:
                rows = checked_rows(chunk)
                if rows.shape[1] != self.d_model:
                    raise ValueError(
                        f"a chunk has width {rows.shape[1]}, the first one {self.d_model}; give chunks of equal width"
                    )
                yield rows
            if not self.repeat:
                return

    def _batch(self, rows: Tensor) -> ActivationBatch:
        numbers = torch.arange(self._given, self._given + len(rows))
        self._given += len(rows)
        return ActivationBatch({ROWS: rows}, numbers, numbers, numbers, torch.zeros_like(numbers))

    def state_dict(self) -> dict[str, Any]:
        return {"setup": {"kind": "chunks", "batch": self.batch_tokens}, "given": self._given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_same_setup(state["setup"], {"kind": "chunks", "batch": self.batch_tokens})
        self._given = state["given"]


class Activations(ABC):
    """Token vectors (n, d) at one or several hook points, with their text if it is known.

    `quadric.harvest` returns them, in memory or on disk; `fit`, `evaluate` and `collect_evidence` take them. The number
    of rows is `len(acts)`. In memory, `acts.vectors` are the rows, or `acts["resid_pre.15"]` if there are several hook
    points.

    Example:
        >>> acts = quadric.harvest("my-model", ["Monday comes before Tuesday."], layer=2)
        >>> len(acts), acts.vectors.shape
        (28, torch.Size([28, 32]))
    """

    hook_points: tuple[str, ...]
    d_model: int
    provenance: StreamProvenance

    @abstractmethod
    def stream(self, *, batch_tokens: int, seed: int | None = 0, repeat: bool = False) -> ActivationStream:
        """Batches of `batch_tokens` rows with a cursor that can be saved; `seed=None` keeps the order of the rows."""

    def sole_hook_point(self, wanted: str | None = None) -> str:
        """The hook point to read: the wanted one, or the only one."""
        if wanted in self.hook_points:
            return wanted
        if wanted is None and len(self.hook_points) == 1:
            return self.hook_points[0]
        raise ValueError(
            f"hook_point={wanted!r} does not name one of the hook points of these activations; "
            f"choose from: {', '.join(self.hook_points)}"
        )


class SequenceText(NamedTuple):
    """One sequence as the language model read it, dropped positions included."""

    tokens: Int[np.ndarray, " l"]
    documents: Int[np.ndarray, " l"]


@dataclass(eq=False, repr=False)
class ActivationsInMemory(Activations):
    """Rows in memory, returned by `harvest` or made from a tensor."""

    batch: ActivationBatch
    provenance: StreamProvenance
    sequences: Sequence[SequenceText] = ()
    tokenizer: Any = None
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.hook_points = tuple(self.batch.activations)
        self.d_model = next(iter(self.batch.activations.values())).shape[1]

    def __len__(self) -> int:
        return len(self.batch)

    def __repr__(self) -> str:
        origin = f", {self.provenance.model} on {self.provenance.corpus}" if self.provenance.model else ""
        return f"Activations({len(self):,} × {self.d_model} at {', '.join(self.hook_points)}{origin})"

    def __getitem__(self, hook_point: str) -> Float[Tensor, "n d"]:
        """The rows at one hook point."""
        return self.batch.activations[self.sole_hook_point(hook_point)]

    @property
    def vectors(self) -> Float[Tensor, "n d"]:
        """The rows, if there is only one hook point."""
        return self.batch.activations[self.sole_hook_point()]

    def stream(self, *, batch_tokens: int, seed: int | None = 0, repeat: bool = False) -> RowStream:
        return RowStream(self.batch, self.provenance, batch_tokens, seed=seed, repeat=repeat)


class ActivationsOnDisk(Activations):
    """A cache folder written by `quadric harvest`; rows are read when they are needed."""

    def __init__(self, folder: str | Path) -> None:
        self.cache = ActivationCache(folder)
        self.hook_points, self.d_model = self.cache.hook_points, self.cache.d_model
        self.provenance = self.cache.provenance

    def __len__(self) -> int:
        return len(self.cache)

    def __repr__(self) -> str:
        return (
            f"Activations({len(self):,} × {self.d_model} at {', '.join(self.hook_points)}, {self.provenance.model} on "
            f"{self.provenance.corpus}, in '{self.cache.folder}')"
        )

    def stream(self, *, batch_tokens: int, seed: int | None = 0, repeat: bool = False) -> CachedStream:
        return CachedStream(self.cache, batch=BatchSize(tokens=min(batch_tokens, len(self))), seed=seed, repeat=repeat)


class ActivationChunks(Activations):
    """Any iterable of tensors (n_i, d), read chunk by chunk, in order; its length need not be known."""

    def __init__(self, chunks: Iterable[Tensor]) -> None:
        self.hook_points, self.provenance = (ROWS,), StreamProvenance(hook_points=(ROWS,))
        self.is_reiterable = iter(chunks) is not chunks
        self.chunks = chunks if self.is_reiterable else RememberedChunks(iter(chunks))
        first = next(iter(self.chunks), None)
        if first is None:
            raise ValueError("the iterable of activations is empty; give at least one tensor of shape (n, d)")
        self.d_model = checked_rows(first).shape[1]

    def __repr__(self) -> str:
        return f"Activations(chunks of width {self.d_model})"

    def stream(self, *, batch_tokens: int, seed: int | None = 0, repeat: bool = False) -> ChunkStream:
        repeat = repeat and self.is_reiterable
        return ChunkStream(self.chunks, self.d_model, self.provenance, batch_tokens, repeat=repeat)


def as_activations(x: Any, texts: Sequence[str] | None = None) -> Activations:
    """Turn a tensor or array (n, d), an iterable of tensors or a cache folder into `Activations`.

    `texts` has one string per row of a tensor, shown in place of a token's text.

    Example:
        >>> as_activations(torch.randn(100, 8))
        Activations(100 × 8 at rows)
    """
    if isinstance(x, Tensor | np.ndarray):
        return rows_in_memory(checked_rows(torch.as_tensor(x)), texts)
    if texts is not None:
        raise ValueError("texts belong to the rows of a tensor; these activations are not a tensor, leave texts out")
    if isinstance(x, Activations):
        return x
    if isinstance(x, str | Path):
        return ActivationsOnDisk(x)
    if isinstance(x, Iterable):
        return ActivationChunks(x)
    raise ValueError(
        f"activations are a {type(x).__name__}; give a tensor (n, d), an iterable of tensors, a cache folder, or "
        "the result of quadric.harvest"
    )


def rows_in_memory(rows: Float[Tensor, "n d"], texts: Sequence[str] | None = None) -> ActivationsInMemory:
    """A tensor as activations; every row is a separate sequence."""
    if texts is not None and len(texts) != len(rows):
        raise ValueError(f"there are {len(texts)} texts for {len(rows)} rows; give one text per row")
    numbers = torch.arange(len(rows))
    batch = ActivationBatch({ROWS: rows}, numbers, numbers, numbers, torch.zeros_like(numbers))
    content = rows.contiguous().cpu().numpy().view(np.uint8).data
    fingerprint = f"sha256:{hashlib.sha256(content).hexdigest()}"
    provenance = StreamProvenance(hook_points=(ROWS,), rows_sha256=fingerprint)
    return ActivationsInMemory(batch, provenance, texts=texts)
