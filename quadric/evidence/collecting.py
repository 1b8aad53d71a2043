"""One pass over a stream, from the first batch to evidence on disk; killed at any moment, the same call goes on."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quadric.activations.batches import ActivationBatch, ActivationStream
from quadric.activations.harvesting import Progress
from quadric.autoencoders import BilinearAutoencoder, Provenance
from quadric.evidence.array_file import read_arrays, write_arrays
from quadric.evidence.collector import Collector
from quadric.evidence.finishing import evidence_of
from quadric.evidence.places import POSITION_BITS, place_of
from quadric.evidence.record import Evidence
from quadric.evidence.settings import EvidenceSettings
from quadric.evidence.text import TextSource, text_behind, window_hashes

STATE = "collecting.safetensors"
MUST_MATCH = ("model", "model_revision", "hook_point", "tokenizer_fingerprint")


class Job(NamedTuple):
    """An autoencoder to collect evidence about, and where it goes."""

    autoencoder: BilinearAutoencoder
    folder: Path


def collect(autoencoder: BilinearAutoencoder, stream: ActivationStream, folder: Path, **options: Any) -> Evidence:
    """Score tokens of a stream and save what they say about every latent; see `collect_together` for the options."""
    (evidence,) = collect_together([Job(autoencoder, folder)], stream, **options)
    return evidence


def collect_together(
    jobs: Sequence[Job],
    stream: ActivationStream,
    *,
    n_tokens: int,
    settings: EvidenceSettings | None = None,
    text: TextSource | None = None,
    seconds_between_saves: float = 60.0,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> list[Evidence]:
    """Show up to `n_tokens` tokens of one stream to several autoencoders, each as if it were alone.

    What was gathered so far is saved now and then, with the stream's cursor, and removed at the end.
    """
    if n_tokens < 2:
        raise ValueError(f"n_tokens={n_tokens} says nothing about a latent; score at least 2, better 100000")
    provenances = [provenance_here(job.autoencoder, stream) for job in jobs]
    text = text or text_behind(stream)
    collectors = [Collector(job.autoencoder, settings or EvidenceSettings()) for job in jobs]
    states = [
        State(job.folder, collector, stream, seconds_between_saves)
        for job, collector in zip(jobs, collectors, strict=True)
    ]

    def after_batch(position: int) -> None:
        for state in states:
            state.save_if_due(position)

    position = resume(states, stream)
    gather_together(collectors, stream, text, n_tokens, position, after_batch=after_batch, on_progress=on_progress)
    for job, collector, provenance, state in zip(jobs, collectors, provenances, states, strict=True):
        evidence_of(collector, text, provenance, _notes(collector.n_tokens, n_tokens)).save(job.folder)
        state.forget()
    return [Evidence.load(job.folder) for job in jobs]


def gather(collector: Collector, stream: ActivationStream, text: TextSource, *, n_tokens: int) -> None:
    """Show a collector the stream until it has seen `n_tokens` tokens or the stream ends."""
    gather_together([collector], stream, text, n_tokens, collector.n_tokens)


def gather_together(
    collectors: Sequence[Collector],
    stream: ActivationStream,
    text: TextSource,
    n_tokens: int,
    position: int,
    *,
    after_batch: Callable[[int], None] = lambda _: None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Show the stream, which stands at token number `position`, to collectors that may be further than that already."""
    if getattr(stream, "repeat", False):
        raise ValueError("the stream repeats its text, and evidence counts every token once; give repeat=False")
    hook_points = [hook_point_here(collector.autoencoder, stream) for collector in collectors]
    before = position
    on_progress(Progress(before, n_tokens, 0))
    if min(collector.n_tokens for collector in collectors) >= n_tokens:
        return
    with _closing(stream) as batches:
        for batch in batches:
            batch = batch.rows(0, n_tokens - position)
            for collector, hook_point in zip(collectors, hook_points, strict=True):
                _show(collector, batch.rows(collector.n_tokens - position, len(batch)), hook_point, text)
            position += len(batch)
            on_progress(Progress(position, n_tokens, position - before))
            if position >= n_tokens:
                return
            after_batch(position)


def _show(collector: Collector, batch: ActivationBatch, hook_point: str, text: TextSource) -> None:
    if not len(batch):
        return
    sequences, positions = (column.cpu().numpy().astype(np.int64) for column in (batch.sequences, batch.positions))
    if positions.max() >= 1 << POSITION_BITS:
        raise ValueError(f"position {positions.max()} exceeds {1 << POSITION_BITS}; give shorter sequences")
    windows = window_hashes(text, sequences, positions, collector.settings.window)
    collector.update(batch.activations[hook_point], place_of(sequences, positions), windows)


@contextmanager
def _closing(stream: ActivationStream) -> Iterator[Iterator[ActivationBatch]]:
    """The stream's batches; a producer that runs ahead is stopped at the end."""
    batches = iter(stream)
    try:
        yield batches
    finally:
        if close := getattr(batches, "close", None):
            close()


def hook_point_here(autoencoder: BilinearAutoencoder, stream: ActivationStream) -> str:
    """The hook point of the stream that an autoencoder was made for."""
    own = autoencoder.provenance.hook_point
    if own in stream.hook_points:
        return own
    if own is None and len(stream.hook_points) == 1:
        return stream.hook_points[0]
    raise ValueError(f"the autoencoder reads {own}, but the stream has {', '.join(stream.hook_points)}; give its own")


def provenance_here(autoencoder: BilinearAutoencoder, stream: ActivationStream) -> Provenance:
    """Where the activations come from, if it is where the autoencoder's came from; the text may be another."""
    if autoencoder.d_model != stream.d_model:
        raise ValueError(
            f"the autoencoder has d_model={autoencoder.d_model}, the stream {stream.d_model}; give its own"
        )
    here = stream.provenance.for_hook_point(hook_point_here(autoencoder, stream))
    for name in MUST_MATCH:
        trained, found = getattr(autoencoder.provenance, name), getattr(here, name)
        if trained is not None and trained != found:
            raise ValueError(f"the autoencoder was made for {name} {trained!r}, the stream has {found!r}; give its own")
    return here


def _notes(scored: int, wanted: int) -> list[str]:
    if scored >= wanted:
        return []
    return [f"The text ended after {scored:,} of the {wanted:,} tokens asked for."]


class Saved(NamedTuple):
    """Where the stream stood when a state was saved."""

    position: int
    """Tokens that it had given."""
    cursor: dict[str, Any]


class State:
    """A pass that is under way, on disk: one file, so that what was gathered and the cursor never disagree."""

    def __init__(self, folder: Path, collector: Collector, stream: ActivationStream, seconds: float) -> None:
        self.path = folder / STATE
        self.collector, self.stream, self.seconds = collector, stream, seconds
        self.last = time.monotonic()

    def restore(self) -> Saved | None:
        """What was gathered, from the file, if there is one."""
        if not self.path.is_file():
            return None
        arrays, metadata = read_arrays(self.path)
        found, own = json.loads(metadata["identity"]), json.loads(self._identity())
        if found != own:
            differing = [name for name in own if found.get(name) != own[name]]
            raise ValueError(
                f"{self.path} was begun with other {' and '.join(differing)}; "
                "delete it to begin anew, or ask for the same"
            )
        self.collector.restore(arrays)
        return Saved(**json.loads(metadata["saved"]))

    def save_if_due(self, position: int) -> None:
        """Save, if the last time is long enough ago."""
        if time.monotonic() - self.last >= self.seconds:
            self.save(position)
            self.last = time.monotonic()

    def save(self, position: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        saved = Saved(position, self.stream.state_dict())
        metadata = {"identity": self._identity(), "saved": json.dumps(saved._asdict())}
        write_arrays(self.path, self.collector.arrays(), metadata)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    def _identity(self) -> str:
        stream: dict[str, Any] = {"stream": asdict(self.stream.provenance)}
        return json.dumps({**self.collector.identity(), **stream})


def resume(states: Sequence[State], stream: ActivationStream) -> int:
    """Restore what was gathered and put the stream where the last of the collectors was; its token number."""
    saved = [state.restore() for state in states]
    if any(each is None for each in saved):
        return 0
    position, cursor = min((each for each in saved if each is not None), key=lambda each: each.position)
    stream.load_state_dict(cursor)
    return position
