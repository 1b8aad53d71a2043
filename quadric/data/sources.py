"""The activations that users pass in: a tensor, chunks of tensors, a cache folder, or the result of `harvest`.

`as_activations` turns each of these into `Activations` with the same interface, so that `fit`, `evaluate` and
`collect_evidence` work with all of them.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.data.batches import ActivationBatch, ActivationStream, BatchSize
from quadric.data.cache import ActivationCache, CachedStream
from quadric.data.provenance import ROWS, StreamProvenance
from quadric.data.row_streams import ChunkStream, RememberedChunks, RowStream, checked_rows


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


class ActivationsInMemory(Activations):
    """Rows in memory, returned by `harvest` or made from a tensor."""

    def __init__(
        self,
        batch: ActivationBatch,
        provenance: StreamProvenance,
        sequences: Sequence[SequenceText] = (),
        tokenizer: Any = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        self.batch, self.provenance = batch, provenance
        self.hook_points = tuple(batch.activations)
        self.d_model = next(iter(batch.activations.values())).shape[1]
        self.sequences, self.tokenizer, self.texts = sequences, tokenizer, texts

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
    """Turn a tensor, chunks of tensors or a cache folder into `Activations`.

    Args:
        x: A tensor or array (n, d), an iterable of such tensors, the path of a cache folder, or `Activations`.
        texts: One string per row of a tensor, shown in place of a token's text.

    Returns:
        The activations, ready to be streamed.

    Example:
        >>> as_activations(torch.randn(100, 8))
        Activations(100 × 8 at rows)
    """
    if isinstance(x, Activations):
        found = x
    elif isinstance(x, str | Path):
        found = ActivationsOnDisk(x)
    elif isinstance(x, Tensor | np.ndarray):
        return rows_in_memory(checked_rows(torch.as_tensor(x)), texts)
    elif isinstance(x, Iterable):
        found = ActivationChunks(x)
    else:
        raise ValueError(
            f"activations are a {type(x).__name__}; give a tensor (n, d), an iterable of tensors, a cache folder, or "
            "the result of quadric.harvest"
        )
    if texts is not None:
        raise ValueError("texts belong to the rows of a tensor; these activations are not a tensor, leave texts out")
    return found


def rows_in_memory(rows: Float[Tensor, "n d"], texts: Sequence[str] | None = None) -> ActivationsInMemory:
    """A tensor as activations; every row is a separate sequence."""
    if texts is not None and len(texts) != len(rows):
        raise ValueError(f"there are {len(texts)} texts for {len(rows)} rows; give one text per row")
    numbers = torch.arange(len(rows))
    batch = ActivationBatch({ROWS: rows}, numbers, numbers, numbers, torch.zeros_like(numbers))
    provenance = StreamProvenance(hook_points=(ROWS,), rows_sha256=_fingerprint(rows))
    return ActivationsInMemory(batch, provenance, texts=texts)


def _fingerprint(rows: Float[Tensor, "n d"]) -> str:
    return f"sha256:{hashlib.sha256(rows.contiguous().cpu().numpy().view(np.uint8).data).hexdigest()}"
