"""The batches that a stream yields, the interface that live and cached streams share, and a thread that reads ahead."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.data.provenance import StreamProvenance


@dataclass(frozen=True)
class ActivationBatch:
    """Token vectors (unscaled, float32) and where each comes from; row i of every field belongs to the same token."""

    activations: dict[str, Float[Tensor, "n d"]]
    """One tensor per hook point, keyed by its canonical name."""
    token_ids: Int[Tensor, " n"]
    documents: Int[Tensor, " n"]
    """Index of the document in its corpus."""
    sequences: Int[Tensor, " n"]
    """Index of the sequence in its epoch."""
    positions: Int[Tensor, " n"]
    """Position in the sequence that the language model read."""

    def __len__(self) -> int:
        return len(self.token_ids)

    def take(self, rows: slice | Int[Tensor, " k"]) -> "ActivationBatch":
        """Some of the rows."""
        return ActivationBatch(
            {name: vectors[rows] for name, vectors in self.activations.items()},
            *(getattr(self, name)[rows] for name in COLUMNS),
        )

    def rows(self, start: int, stop: int) -> "ActivationBatch":
        """A slice of the rows."""
        return self.take(slice(start, stop))

    def on_host(self) -> "ActivationBatch":
        """The batch on the CPU."""
        return ActivationBatch(
            {name: vectors.cpu() for name, vectors in self.activations.items()},
            *(getattr(self, name).cpu() for name in COLUMNS),
        )

    def pinned(self) -> "ActivationBatch":
        """A copy with its vectors in pinned memory, for fast transfer to a GPU; the batch itself if there is no GPU."""
        if not torch.cuda.is_available():
            return self
        return replace(self, activations={name: vectors.pin_memory() for name, vectors in self.activations.items()})


COLUMNS = ("token_ids", "documents", "sequences", "positions")


def concatenated(batches: Sequence[ActivationBatch]) -> ActivationBatch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    return ActivationBatch(
        {name: torch.cat([batch.activations[name] for batch in batches]) for name in batches[0].activations},
        *(torch.cat([getattr(batch, column) for batch in batches]) for column in COLUMNS),
    )


@dataclass(frozen=True, kw_only=True)
class BatchSize:
    """Size of a batch: exactly `tokens` rows, or all kept tokens of `sequences` whole sequences.

    Example:
        >>> from quadric.data import BatchSize
        >>> BatchSize(tokens=4096).unit
        'tokens'
        >>> BatchSize(sequences=32).count
        32
    """

    tokens: int | None = None
    sequences: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.sequences is None):
            raise ValueError(f"tokens={self.tokens} and sequences={self.sequences}; give exactly one of them")
        if self.count < 1:
            raise ValueError(f"a batch of {self.count} {self.unit} is empty; give at least 1")

    @property
    def unit(self) -> Literal["tokens", "sequences"]:
        return "sequences" if self.tokens is None else "tokens"

    @property
    def count(self) -> int:
        return self.sequences or self.tokens or 0


@runtime_checkable
class ActivationStream(Protocol):
    """An iterable of batches with a cursor that can be saved and restored.

    Iteration continues from the cursor. `state_dict()` is the cursor after the last batch received, however many
    batches were prefetched. A stream created with the same arguments that loads this cursor continues with exactly the
    next batch, bit for bit. The last batch of a stream that does not repeat may be smaller.
    """

    hook_points: tuple[str, ...]
    d_model: int
    provenance: StreamProvenance

    def __iter__(self) -> Iterator[ActivationBatch]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def check_rank(rank: int, world_size: int) -> None:
    """Raise unless `rank` is one of `world_size` ranks."""
    if not 0 <= rank < world_size:
        raise ValueError(f"rank={rank} is not one of world_size={world_size} ranks; give 0 to {world_size - 1}")


def check_same_setup(saved: dict[str, Any], here: dict[str, Any]) -> None:
    """Raise if a cursor was saved by a stream with other batches, where it points to other rows."""
    differing = [
        f"{name}: saved {saved.get(name)}, here {value}" for name, value in here.items() if saved.get(name) != value
    ]
    if differing:
        raise ValueError(
            f"the cursor belongs to another stream ({'; '.join(differing)}); create the stream with its arguments"
        )


Item = TypeVar("Item")
_END = object()


def prefetched(items: Iterable[Item], depth: int) -> Generator[Item]:
    """The same items, produced by a thread up to `depth` items ahead; with depth 0, produced on demand.

    An exception in the producer is raised in the consumer, after the items before it. Leaving the loop ends the thread.
    """
    if depth == 0:
        yield from items
        return
    iterator: Iterator[Any] = iter(items)
    # A new thread begins with the first GPU as its current one, whichever is that of the process.
    gpu = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def read() -> Any:
        if gpu is not None:
            torch.cuda.set_device(gpu)
        return next(iterator, _END)

    thread = ThreadPoolExecutor(1, thread_name_prefix="quadric-prefetch")
    try:
        waiting = deque(thread.submit(read) for _ in range(depth))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(thread.submit(read))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
