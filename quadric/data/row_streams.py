"""Streams of batches from rows in memory and from chunks of rows; see `ActivationStream` for their guarantees."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadric.data.batches import COLUMNS, ActivationBatch, check_same_setup
from quadric.data.provenance import ROWS, StreamProvenance

REMEMBERED_ROWS = 32_768
"""Rows of an iterator that can be read twice; a lens is estimated from fewer."""


def checked_rows(rows: Any) -> Tensor:
    """A floating-point tensor (n, d), converted to at least float32; anything else is an error."""
    if not isinstance(rows, Tensor) or not rows.is_floating_point() or rows.ndim != 2 or 0 in rows.shape:
        found = f"{rows.dtype} of shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ValueError(f"activations are {found}; expected a floating-point tensor of shape (n, d), e.g. x.float()")
    return rows.detach().to(torch.promote_types(rows.dtype, torch.float32))


class RowStream:
    """Batches of rows in memory, shuffled differently in every epoch.

    A repeating stream drops the rows at the end of an epoch that do not fill a batch: a batch of a few rows gives no
    usable estimate of the density, and the next epoch contains these rows again.
    """

    def __init__(
        self,
        rows: ActivationBatch,
        provenance: StreamProvenance,
        batch_tokens: int,
        *,
        seed: int | None = 0,
        repeat: bool = False,
    ) -> None:
        self.rows, self.seed, self.repeat = rows, seed, repeat
        self.batch_tokens = min(batch_tokens, len(rows))
        self.hook_points, self.provenance = tuple(rows.activations), provenance
        self.d_model = next(iter(rows.activations.values())).shape[1]
        self._epoch, self._next = 0, 0

    def __iter__(self) -> Iterator[ActivationBatch]:
        while True:
            order = self._order()
            while self._next < self._n_batches():
                start = self._next * self.batch_tokens
                self._next += 1
                yield self._select(order, start, min(start + self.batch_tokens, len(self.rows)))
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

    def _select(self, order: Tensor | None, start: int, stop: int) -> ActivationBatch:
        if order is None:
            return self.rows.rows(start, stop)
        chosen = order[start:stop]
        return ActivationBatch(
            {name: vectors[chosen] for name, vectors in self.rows.activations.items()},
            *(getattr(self.rows, name)[chosen] for name in COLUMNS),
        )


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


class ChunkStream:
    """Batches of exactly `batch_tokens` rows from an iterable of chunks, in order."""

    def __init__(
        self,
        chunks: Iterable[Tensor],
        d_model: int,
        provenance: StreamProvenance,
        batch_tokens: int,
        *,
        repeat: bool = False,
    ) -> None:
        self.chunks, self.d_model, self.provenance = chunks, d_model, provenance
        self.hook_points = provenance.hook_points
        self.batch_tokens, self.repeat = batch_tokens, repeat
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
