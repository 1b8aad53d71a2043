"""The stream of activations straight from a language model.

    blocks of a corpus -> forward passes of a few sequences -> token rules -> batches

Forward passes are numbered within an epoch; pass f belongs to rank f mod world_size, so every pass is run by exactly
one rank. A cursor is (epoch, forward pass, units of that pass already yielded). Resuming runs that pass again and skips
what was already yielded; the result is the same to the bit, because a pass always holds the same sequences.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from quadric.data.batches import (
    ActivationBatch,
    BatchSize,
    check_rank,
    check_same_setup,
    concatenated,
    prefetched,
)
from quadric.data.corpus import Block, CorpusError, Document, TokenBlocks
from quadric.data.forward import capture, check_hook_points
from quadric.data.hook_points import parse_hook_points
from quadric.data.models import LanguageModel, find_model, load_model, load_shape
from quadric.data.provenance import ActivationConfig, StreamProvenance, provenance_of
from quadric.data.token_rules import Sequences, TokenCounts, keep_tokens


class Cursor(NamedTuple):
    """Position of a live stream: the next forward pass, and how many of its units were already yielded."""

    epoch: int
    forward: int
    given: int


@dataclass(frozen=True)
class ForwardPass:
    """The kept activations of one forward pass, and the sequences it read."""

    epoch: int
    index: int
    batch: ActivationBatch
    kept_per_sequence: list[int]
    sequences: Sequences
    counts: TokenCounts

    def units(self, size: BatchSize) -> int:
        return len(self.batch) if size.unit == "tokens" else len(self.kept_per_sequence)

    def select(self, start: int, stop: int, size: BatchSize) -> ActivationBatch:
        """The rows of units `start` to `stop`."""
        if size.unit == "tokens":
            return self.batch.rows(start, stop)
        return self.batch.rows(sum(self.kept_per_sequence[:start]), sum(self.kept_per_sequence[:stop]))


@dataclass(eq=False)
class LiveStream:
    """Batches of activations straight from a language model; see `ActivationStream` for its guarantees.

    Example:
        >>> from quadric.data import ActivationConfig, BatchSize, LiveStream
        >>> from quadric.data.corpus import CorpusConfig
        >>> config = ActivationConfig(model="my-model", hook_points="2", corpus=CorpusConfig(source="texts.jsonl"))
        >>> stream = LiveStream.open(config, batch=BatchSize(tokens=200))
        >>> next(iter(stream)).activations["resid_pre.2"].shape
        torch.Size([200, 32])
    """

    config: ActivationConfig
    """Text, hook points and token rules."""
    model: LanguageModel
    """The language model; `LiveStream.open` loads the one that the config names."""
    _: KW_ONLY
    batch: BatchSize
    provenance: StreamProvenance
    rank: int = 0
    world_size: int = 1
    """Number of processes that share the stream."""
    repeat: bool = False
    """Start again at the end of the text, in another order."""
    prefetch: int | None = None
    """Forward passes that a thread computes ahead; by default 2, and none on a CPU."""
    documents: Sequence[Document] | None = None
    """Documents in memory to read instead of the config's corpus."""

    def __post_init__(self) -> None:
        check_rank(self.rank, self.world_size)
        self.points = parse_hook_points(self.config.hook_points, self.model.n_layers)
        check_hook_points(self.model, self.points)
        self.hook_points = tuple(map(str, self.points))
        self.d_model = self.model.d_model
        self.blocks: TokenBlocks | None = None
        """The corpus that is being read."""
        self._cursor = Cursor(0, 0, 0)

    @classmethod
    def open(cls, config: ActivationConfig, *, device: str = "auto", **arguments: Any) -> "LiveStream":
        """Load the model that a config names and stream from it."""
        source = find_model(config.model, config.model_revision)
        provenance = provenance_of(config, source, load_shape(source), device)
        model = load_model(source, device=device, dtype=config.model_dtype)
        return cls(config, model, provenance=provenance, **arguments)

    def __iter__(self) -> Iterator[ActivationBatch]:
        parts: list[ActivationBatch] = []
        held, given = 0, self._cursor.given
        for forward in self.ahead(self.passes(self._cursor.epoch, self._cursor.forward)):
            units = forward.units(self.batch)
            while given < units:
                take = min(self.batch.count - held, units - given)
                parts.append(forward.select(given, given + take, self.batch))
                held, given = held + take, given + take
                if held == self.batch.count:
                    is_used_up = given == units
                    self._cursor = Cursor(forward.epoch, forward.index + is_used_up, 0 if is_used_up else given)
                    yield concatenated(parts)
                    parts, held = [], 0
            given = 0
        if parts:
            self._cursor = Cursor(forward.epoch, forward.index + 1, 0)
            yield concatenated(parts)

    def ahead(self, passes: Iterator[ForwardPass]) -> Generator[ForwardPass]:
        """The same passes, computed ahead by a thread."""
        return prefetched(passes, passes_ahead(self.model.device) if self.prefetch is None else self.prefetch)

    def passes(
        self, epoch: int = 0, start: int = 0, belongs: Callable[[int], bool] | None = None
    ) -> Iterator[ForwardPass]:
        """This rank's forward passes, starting with pass `start` of an epoch; or those whose number `belongs`."""
        belongs = belongs or (lambda index: index % self.world_size == self.rank)
        size = self.config.sequences_per_forward
        while True:
            self.blocks = TokenBlocks(
                self.config.corpus,
                self.model.tokenizer,
                bos=self.config.rules.bos_of(self.model.tokenizer),
                separator=self.model.tokenizer.separator,
                epoch=epoch,
                documents=self.documents,
            )
            blocks, index = iter(self.blocks), -1
            while group := list(islice(blocks, size)):
                index += 1
                if index >= start and belongs(index):
                    yield self._run(epoch, index, group)
            if not self.repeat:
                return
            if index < self.rank:
                raise CorpusError(
                    f"corpus '{self.config.corpus.source}' fills {index + 1} forward passes, too few for "
                    f"world_size={self.world_size}; give more text or a smaller sequences_per_forward"
                )
            epoch, start = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "setup": self._setup(),
            "epoch": self._cursor.epoch,
            "forward": self._cursor.forward,
            "given": self._cursor.given,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_same_setup(state["setup"], self._setup())
        self._cursor = Cursor(state["epoch"], state["forward"], state["given"])

    def _setup(self) -> dict[str, Any]:
        return {
            "kind": "live",
            "batch": [self.batch.count, self.batch.unit],
            "sequences_per_forward": self.config.sequences_per_forward,
            "rank": self.rank,
            "world_size": self.world_size,
        }

    def _run(self, epoch: int, index: int, group: list[Block]) -> ForwardPass:
        first = index * self.config.sequences_per_forward
        sequences = padded(group, first, self.model.device)
        activations = capture(self.model, self.points, sequences.tokens, sequences.mask)
        kept = keep_tokens(activations, sequences, self.config.rules, self.model.tokenizer)
        place = kept.mask.nonzero()
        batch = ActivationBatch(
            kept.activations,
            sequences.tokens[kept.mask],
            sequences.documents[kept.mask],
            place[:, 0] + first,
            place[:, 1],
        )
        return ForwardPass(epoch, index, batch, kept.mask.sum(dim=1).tolist(), sequences, kept.counts)


def passes_ahead(device: torch.device) -> int:
    """How many forward passes a thread runs ahead of whoever reads the stream.

    None on a CPU: there the thread has no cores of its own. Its team of threads and the reader's wait for each other,
    and a harvest took 3 % longer.
    """
    return 0 if device.type == "cpu" else 2


def padded(blocks: list[Block], first: int, device: torch.device) -> Sequences:
    """Blocks stacked into one batch; shorter ones are padded on the right, where causal attention does not see it."""
    tokens, documents, mask = (
        pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(device)
        for rows in (
            [block.tokens for block in blocks],
            [block.documents for block in blocks],
            [[True] * len(block.tokens) for block in blocks],
        )
    )
    return Sequences(tokens, documents, mask, first)
