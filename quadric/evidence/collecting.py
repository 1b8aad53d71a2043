"""One pass over a stream of activations, from the first batch to evidence on disk or in memory.

A pass that writes to disk saves its state now and then; if it is killed, the same call continues from there.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from quadric._io.array_file import read_arrays, sha256_of_arrays, write_arrays
from quadric._io.locks import only_writer
from quadric._io.progress import Progress, no_progress, progress_bar
from quadric.data.batches import ActivationBatch, ActivationStream
from quadric.data.sources import as_activations
from quadric.evidence.collector import Collector, GeometryOf
from quadric.evidence.finishing import evidence_of
from quadric.evidence.places import POSITION_BITS, place_of, window_hashes
from quadric.evidence.record import Evidence, EvidenceSettings
from quadric.evidence.streams import hook_point_here, provenance_here
from quadric.evidence.text import TextSource, length_of, text_behind, text_of
from quadric.geometry import Decomposition
from quadric.model import Dictionary
from quadric.model.objective import float32_arithmetic

STATE = "collecting.safetensors"
BATCH_TOKENS = 4096
"""Rows per batch of activations that a user gave."""


class Job(NamedTuple):
    """An autoencoder to collect evidence about, and the folder for it."""

    autoencoder: Dictionary
    folder: Path
    geometry: Decomposition | GeometryOf | None = None
    """The autoencoder's geometry, if it was computed before, or how to get it about the centre of the tokens."""


def collect(autoencoder: Dictionary, stream: ActivationStream, folder: Path, **options: Any) -> Evidence:
    """Score tokens of a stream and save what they say about every latent.

    Args:
        autoencoder: The autoencoder whose latents are observed.
        stream: Its activations, read once.
        folder: Where the evidence goes.
        **options: See `collect_together`.

    Returns:
        The evidence, loaded from the folder.

    Example:
        >>> from quadric.evidence import collect, open_live
        >>> stream = open_live(ae.provenance, batch_tokens=256)
        >>> found = collect(ae, stream, Path("evidence"), n_tokens=500)
        >>> found.n_tokens
        500
    """
    (evidence,) = collect_together([Job(autoencoder, folder)], stream, **options)
    return evidence


def collect_evidence(
    autoencoder: Dictionary,
    x: Any,
    *,
    texts: Sequence[str] | None = None,
    tokens: int | None = None,
    points: int = 2000,
    tokenizer: Any = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Evidence:
    """Show activations to every latent and keep what they say: points, contexts, firing statistics, labels.

    Args:
        autoencoder: Any dictionary: of a linear one, z are the activations after its gate.
        x: A tensor (n, d), an iterable of such tensors, a cache folder, or what `quadric.harvest` returned.
        texts: One string for every row of a tensor, shown where a token's text would be; by default its number.
        tokens: Rows to read; all by default.
        points: Points to keep per latent, drawn with weights (|z − rest| + ε)⁴.
        tokenizer: The tokenizer behind a cache folder whose language model cannot be found by its recorded name.
        out: A folder to save the evidence in; `quadric.Evidence.load` reads it.
        progress: Show a progress bar in terminals and notebooks.

    Returns:
        The evidence, for `quadric.latents`, `show`, `export_site` and `view`.

    Example:
        >>> evidence = quadric.collect_evidence(ae, torch.randn(500, 32))
        >>> evidence.n_tokens
        500
    """
    source = as_activations(x, texts)
    n_tokens = tokens if tokens is not None else length_of(source)
    stream = source.stream(batch_tokens=BATCH_TOKENS, seed=None)
    with progress_bar(shown=progress) as report:
        evidence = collect_in_memory(
            autoencoder,
            stream,
            text_of(source, stream, n_tokens, tokenizer),
            n_tokens=n_tokens,
            settings=EvidenceSettings(n_points=points),
            on_progress=report,
        )
    if out is not None:
        evidence.save(out)
    return evidence


@float32_arithmetic()
def collect_in_memory(
    autoencoder: Dictionary,
    stream: ActivationStream,
    text: TextSource,
    *,
    n_tokens: int,
    settings: EvidenceSettings | None = None,
    geometry: Decomposition | None = None,
    on_progress: Progress = no_progress,
) -> Evidence:
    """What tokens of a stream say about every latent, without a file; `geometry` spares their decomposition."""
    _check_count(n_tokens)
    provenance = provenance_here(autoencoder, stream)
    collector = Collector(autoencoder, settings or EvidenceSettings(), geometry)
    gather([collector], stream, text, n_tokens, on_progress=on_progress)
    return evidence_of(collector, text, provenance, _notes(collector.n_tokens, n_tokens))


@float32_arithmetic()
def collect_together(
    jobs: Sequence[Job],
    stream: ActivationStream,
    *,
    n_tokens: int,
    settings: EvidenceSettings | None = None,
    text: TextSource | None = None,
    seconds_between_saves: float = 60.0,
    on_progress: Progress = no_progress,
) -> list[Evidence]:
    """Score tokens of one stream for several autoencoders; each gets the evidence that it would get alone.

    What was gathered so far is saved now and then, together with the stream's cursor, and removed at the end.

    Args:
        jobs: The autoencoders and their folders.
        stream: Activations in batches, read once.
        n_tokens: Tokens to score at most.
        settings: How much is kept per latent.
        text: The text behind the stream; by default that of a live or cached stream.
        seconds_between_saves: How often the state of the pass is saved.
        on_progress: Called after every batch.

    Returns:
        The evidence of each job, loaded from its folder.

    Example:
        >>> from quadric.evidence import Job, collect_together, open_live
        >>> other = quadric.fit(acts, n_latents=16, steps=4, batch_tokens=256, progress=False)
        >>> jobs = [Job(ae, Path("evidence/first")), Job(other, Path("evidence/other"))]
        >>> found = collect_together(jobs, open_live(ae.provenance, batch_tokens=256), n_tokens=500)
        >>> [each.n_tokens for each in found]
        [500, 500]
    """
    _check_count(n_tokens)
    provenances = [provenance_here(job.autoencoder, stream) for job in jobs]
    text = text or text_behind(stream)
    collectors = [Collector(job.autoencoder, settings or EvidenceSettings(), job.geometry) for job in jobs]
    states = [State(job.folder, collector, stream) for job, collector in zip(jobs, collectors, strict=True)]
    last = time.monotonic()

    def after_batch(position: int) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds_between_saves:
            for state in states:
                state.save(position)
            last = time.monotonic()

    with ExitStack() as locks:
        for job in jobs:
            locks.enter_context(only_writer(job.folder, "quadric site (evidence)"))
        position = resume(states, stream)
        gather(collectors, stream, text, n_tokens, position, after_batch=after_batch, on_progress=on_progress)
        for job, collector, provenance, state in zip(jobs, collectors, provenances, states, strict=True):
            evidence_of(collector, text, provenance, _notes(collector.n_tokens, n_tokens)).save(job.folder)
            state.path.unlink(missing_ok=True)
    return [Evidence.load(job.folder) for job in jobs]


def gather(
    collectors: Sequence[Collector],
    stream: ActivationStream,
    text: TextSource,
    n_tokens: int,
    position: int = 0,
    *,
    after_batch: Callable[[int], None] = lambda _: None,
    on_progress: Progress = no_progress,
) -> None:
    """Update collectors from a stream at token `position` up to `n_tokens`; some may have seen more than `position`."""
    if getattr(stream, "repeat", False):
        raise ValueError("the stream repeats its text, but evidence counts every token once; give repeat=False")
    hook_points = [hook_point_here(collector.autoencoder, stream) for collector in collectors]
    on_progress("evidence", position, n_tokens, "tokens")
    if min(collector.n_tokens for collector in collectors) >= n_tokens:
        return
    with opened_batches(stream) as batches:
        held = _calibrate(collectors, hook_points, batches, n_tokens - position)
        calibrated_at = position + sum(map(len, held))
        for batch in chain((held.pop(0) for _ in range(len(held))), batches):
            batch = batch.rows(0, n_tokens - position)
            for collector, hook_point in zip(collectors, hook_points, strict=True):
                _update(collector, batch.rows(collector.n_tokens - position, len(batch)), hook_point, text)
            position += len(batch)
            on_progress("evidence", position, n_tokens, "tokens")
            if position >= n_tokens:
                return
            if position >= calibrated_at:  # before, the stream's cursor is ahead of what was gathered
                after_batch(position)


def _calibrate(
    collectors: Sequence[Collector], hook_points: Sequence[str], batches: Iterator[ActivationBatch], most: int
) -> list[ActivationBatch]:
    """Calibrate all collectors by the first tokens of a stream; returns its batches that they have not seen."""
    pending = [pair for pair in zip(collectors, hook_points, strict=True) if not pair[0].is_calibrated]
    wanted = min(most, max((each.settings.n_calibration_tokens for each, _ in pending), default=0))
    held: list[ActivationBatch] = []
    while sum(map(len, held)) < wanted and (batch := next(batches, None)) is not None:
        held.append(batch)
    for collector, hook_point in pending if held else ():
        collector.calibrate(torch.cat([batch.activations[hook_point] for batch in held])[:most])
    return held


def _update(collector: Collector, batch: ActivationBatch, hook_point: str, text: TextSource) -> None:
    if not len(batch):
        return
    sequences, positions = (column.cpu().numpy().astype(np.int64) for column in (batch.sequences, batch.positions))
    if positions.max() >= 1 << POSITION_BITS:
        raise ValueError(f"position {positions.max()} exceeds {1 << POSITION_BITS}; give shorter sequences")
    windows = window_hashes(text, sequences, positions, collector.settings.window)
    collector.update(batch.activations[hook_point], place_of(sequences, positions), windows)


@contextmanager
def opened_batches(stream: ActivationStream) -> Iterator[Iterator[ActivationBatch]]:
    """The stream's batches; a producer that runs ahead is stopped at the end."""
    batches = iter(stream)
    try:
        yield batches
    finally:
        if close := getattr(batches, "close", None):
            close()


def _check_count(n_tokens: int) -> None:
    if n_tokens < 2:
        raise ValueError(f"n_tokens={n_tokens} is too few for statistics; score at least 2, better 100000")


def _notes(scored: int, wanted: int) -> list[str]:
    if scored >= wanted:
        return []
    return [f"The text ended after {scored:,} of the {wanted:,} tokens requested."]


class State(NamedTuple):
    """A pass in progress, on disk: one file, so that what was gathered and the cursor always agree."""

    folder: Path
    collector: Collector
    stream: ActivationStream

    @property
    def path(self) -> Path:
        return self.folder / STATE

    def restore(self) -> tuple[int, dict[str, Any]] | None:
        """Restore what was gathered, if there is a file; returns where the stream was, as tokens and as its cursor."""
        if not self.path.is_file():
            return None
        arrays, metadata = read_arrays(self.path)
        described = [metadata.get(name, "") for name in ("identity", "saved")]
        if metadata.get("sha256") != sha256_of_arrays(arrays, *described):
            raise ValueError(f"{self.path} is damaged; delete it to start again")
        before, here = json.loads(described[0]), json.loads(self._identity())
        if differing := [name for name in here if before.get(name) != here[name]]:
            raise ValueError(
                f"{self.path} was begun with other {' and '.join(differing)}; "
                "delete it to start again, or give the same"
            )
        self.collector.restore(arrays)
        saved = json.loads(described[1])
        return saved["position"], saved["cursor"]

    def save(self, position: int) -> None:
        """Write what was gathered and the stream's cursor."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        saved = {"position": position, "cursor": self.stream.state_dict()}
        metadata = {"identity": self._identity(), "saved": json.dumps(saved)}
        arrays = self.collector.arrays()
        metadata["sha256"] = sha256_of_arrays(arrays, *metadata.values())
        write_arrays(self.path, arrays, metadata)

    def _identity(self) -> str:
        known: Any = self.stream.provenance
        return json.dumps({**self.collector.identity(), "stream": None if known is None else asdict(known)})


def resume(states: Sequence[State], stream: ActivationStream) -> int:
    """Restore what was gathered and move the stream to where the slowest collector was; returns its token number."""
    saved = [state.restore() for state in states]
    known = [each for each in saved if each is not None]
    if len(known) < len(saved):
        return 0
    position, cursor = min(known, key=lambda each: each[0])
    stream.load_state_dict(cursor)
    return position
