"""Claim: streaming and harvesting to disk are as fast as a bare loop that stops the model at the same layer."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from measure import write_table

from quadric.data import ActivationConfig, BatchSize, HarvestConfig, LanguageModel, LiveStream, live_stream
from quadric.data.corpus import Block, TokenBlocks
from quadric.data.harvesting import fill_folder
from quadric.data.live_stream import ForwardPass, padded

LAYER, SEQUENCES, PASSES, ROUNDS = 15, 8, 3, 6
BARE, STREAM, HARVEST = "(b) bare loop, stopped at the layer", "quadric's stream", "quadric's harvest to disk"
PADDED, DOCUMENTS = "(c) bare loop over separate documents, padded", "quadric's harvest of separate documents"


ALL_THERE_ARE = 10**9


class Stop(Exception):  # noqa: N818
    pass


def full_forward(model: LanguageModel, passes: list[torch.Tensor]) -> None:
    """(a) Every layer and the head, keeping all hidden states: the usual way with transformers."""
    for tokens in passes:
        with torch.no_grad():
            model.causal(input_ids=tokens, use_cache=False, output_hidden_states=True).hidden_states[LAYER]


def bare_loop(model: LanguageModel, passes: list[torch.Tensor]) -> None:
    """(b) and (c) Only the layers before the hook point: no text, no token rules, no batches.

    Causal attention on the right of padding is the same with a mask or without, and faster without.
    """

    def stop(*_: object) -> None:
        raise Stop

    handle = model.layers[LAYER].register_forward_pre_hook(stop)
    for tokens in passes:
        try:
            with torch.no_grad():
                model.decoder(input_ids=tokens, use_cache=False)
        except Stop:
            continue
    handle.remove()


def running_stream(
    config: ActivationConfig, model: LanguageModel, reference: LiveStream, n_passes: int = PASSES
) -> Callable[[], None]:
    """Text to batches, as in a training run. The corpus is opened beforehand, since a run does that only once."""
    batch = BatchSize(sequences=SEQUENCES)
    stream = LiveStream(config, model, batch=batch, provenance=reference.provenance, repeat=True, prefetch=0)
    batches = iter(stream)
    next(batches)

    def run() -> None:
        for _ in islice(batches, n_passes):
            pass

    return run


class Continuing(LiveStream):
    """A stream whose passes go on where the last harvest stopped, since a real harvest opens the corpus only once."""

    def continue_with(self, passes: Iterator[ForwardPass], at_a_time: int) -> None:
        self.going_on, self.at_a_time = passes, at_a_time

    def passes(self, *_: Any, **__: Any) -> Iterator[ForwardPass]:
        return islice(self.going_on, self.at_a_time)


def running_harvest(config: ActivationConfig, reference: LiveStream, n_passes: int = PASSES) -> Callable[[], None]:
    """Text to a cache on disk with everything on: directions and lengths, hashed shards, manifest."""
    batch, model = BatchSize(sequences=1), reference.model
    stream = Continuing(config, model, batch=batch, provenance=reference.provenance)
    opened = LiveStream(config, model, batch=batch, provenance=reference.provenance, repeat=True)
    stream.continue_with(opened.passes(), n_passes)
    next(stream.going_on)
    storage = HarvestConfig(tokens=ALL_THERE_ARE, sequences_per_shard=n_passes * SEQUENCES)

    def run() -> None:
        with TemporaryDirectory() as folder:
            fill_folder(Path(folder) / "cache", storage, stream.provenance, stream.d_model, SEQUENCES, lambda: stream)

    return run


def running_padded_loop(config: ActivationConfig, model: LanguageModel) -> Callable[[], None]:
    """(c) The documents that the harvest reads, in the same order, padded to the longest of each pass."""
    tokenizer = model.tokenizer
    blocks = TokenBlocks(config.corpus, tokenizer, bos=config.rules.bos_of(tokenizer), separator=tokenizer.separator)
    documents = islice(blocks, SEQUENCES, SEQUENCES * (1 + PASSES * ROUNDS))  # the harvest has begun with one pass
    passes = (padded(list(some), 0, model.device).tokens for some in batched(documents, SEQUENCES))
    ready = iter(list(passes))
    return lambda: bare_loop(model, list(islice(ready, PASSES)))


def batched(items: Iterator[Block], size: int) -> Iterator[list[Block]]:
    while some := list(islice(items, size)):
        yield some


def overheads(config: ActivationConfig, reference: LiveStream, passes: int = 50) -> dict[str, float]:
    """CPU seconds per pass that streaming and harvesting add, with the model replaced by a stored output."""
    kept = live_stream.capture(reference.model, reference.points, next(reference.passes()).sequences.tokens)
    with patch.object(live_stream, "capture", lambda *_: kept):
        works = {
            STREAM: running_stream(config, reference.model, reference, passes),
            HARVEST: running_harvest(config, reference, passes),
        }
        return {name: _cpu_seconds(work) / passes for name, work in works.items()}


def _cpu_seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Taken(NamedTuple):
    wall: float
    cpu: float
    """CPU seconds of all threads, which other work on the machine hardly affects."""


def rows_of(results: dict[str, list[Taken]], reference: str, n_tokens: int | None = None) -> list[list[str]]:
    """One row per method, relative to the reference; tokens per second where every round has the same number."""
    rows = []
    for name, taken in results.items():
        speeds = [(n_tokens or 0) / each.wall for each in taken]
        spread = f"{statistics.median(speeds):,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f})" if n_tokens else "–"
        pairs = list(zip(results[reference], taken, strict=True))
        wall = statistics.median(bare.wall / each.wall for bare, each in pairs)
        cpu = statistics.median(bare.cpu / each.cpu for bare, each in pairs)
        rows.append([name, spread, f"{wall:.3f}", f"{cpu:.3f}"])
    return rows


def measured(methods: dict[str, Callable[[], None]]) -> dict[str, list[Taken]]:
    """Time every method once per round, with a different method first in each round."""
    taken: dict[str, list[Taken]] = {name: [] for name in methods}
    for number in range(ROUNDS):
        first = number % len(methods)
        for name in [*methods][first:] + [*methods][:first]:
            wall, cpu = time.perf_counter(), time.process_time()
            methods[name]()
            taken[name].append(Taken(time.perf_counter() - wall, time.process_time() - cpu))
    return taken


def main() -> None:
    load = os.getloadavg()[0]
    config = ActivationConfig(hook_points=str(LAYER), sequences_per_forward=SEQUENCES)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(sequences=SEQUENCES))
    passes = [each.sequences.tokens for each in islice(stream.passes(), PASSES)]
    methods = {
        "(a) full forward, output_hidden_states": lambda: full_forward(stream.model, passes),
        BARE: lambda: bare_loop(stream.model, passes),
        STREAM: running_stream(config, stream.model, stream),
        HARVEST: running_harvest(config, stream),
    }
    results = measured(methods)
    rows = rows_of(results, BARE, PASSES * SEQUENCES * config.corpus.block_length)
    separate = replace(config, corpus=replace(config.corpus, packing="separate"))
    documents = {
        PADDED: running_padded_loop(separate, stream.model),
        DOCUMENTS: running_harvest(separate, stream),
    }
    rows += rows_of(measured(documents), PADDED)
    added = overheads(config, stream)
    alone = statistics.median(each.cpu for each in results[BARE]) / PASSES
    write_table(
        "harvest",
        "Tokens per second from text to activations",
        ["method", "tokens/s, median (range)", "speed relative to the bare loop", "the same in CPU time"],
        rows,
        f"smollm2, residual stream into layer {LAYER} of 30, {SEQUENCES} sequences of {config.corpus.block_length} "
        f"tokens per forward pass, passes per round: {PASSES}, rounds: {ROUNDS}, each starting with a different "
        "method; ratios are medians over rounds. The stream reads, shuffles, tokenizes and packs the text, applies "
        "the token rules and forms batches; prefetching is off, so that all of its work is timed. The harvest stores "
        "directions in float16 and lengths in a hashed shard and writes its manifest, both flushed to disk. Separate "
        "documents differ in length, so the bare loop (c) pads them; both read the same ones. The corpus is opened "
        "beforehand. Measured separately, with the model replaced by a stored "
        f"output, this work takes {added[STREAM] * 1e3:.0f} ms of CPU time per pass for the stream, "
        f"{added[STREAM] / alone:.1%} of (b), and {added[HARVEST] * 1e3:.0f} ms for the harvest, "
        f"{added[HARVEST] / alone:.1%} of (b). "
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_harvest.py`",
    )


if __name__ == "__main__":
    main()
