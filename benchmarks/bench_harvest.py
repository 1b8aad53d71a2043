"""Claim: streaming and harvesting to disk are as fast as a bare loop that stops the model at the same layer."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from measure import write_table

from quadric.activations import ActivationConfig, BatchSize, HarvestConfig, LanguageModel, LiveStream, live_stream
from quadric.activations.harvesting import fill_folder
from quadric.activations.live_stream import ForwardPass

LAYER, SEQUENCES, PASSES, ROUNDS = 15, 8, 1, 6
STREAM, HARVEST = "quadric's stream", "quadric's harvest to disk"


class Stop(Exception):  # noqa: N818
    pass


def full_forward(model: LanguageModel, passes: list[torch.Tensor]) -> None:
    """(a) Every layer and the head, keeping all hidden states: the usual way with transformers."""
    for tokens in passes:
        with torch.no_grad():
            model.causal(input_ids=tokens, use_cache=False, output_hidden_states=True).hidden_states[LAYER]


def bare_loop(model: LanguageModel, passes: list[torch.Tensor]) -> None:
    """(b) Only the layers before the hook point: no text, no token rules, no batches."""

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

    def continue_with(self, passes: Iterator[ForwardPass]) -> None:
        self.going_on = passes

    def passes(self, *_: Any, **__: Any) -> Iterator[ForwardPass]:
        return self.going_on


def running_harvest(config: ActivationConfig, reference: LiveStream, n_passes: int = PASSES) -> Callable[[], None]:
    """Text to a cache on disk with everything on: directions and lengths, hashed shards, manifest, a reading thread."""
    batch, model = BatchSize(sequences=1), reference.model
    stream = Continuing(config, model, batch=batch, provenance=reference.provenance)
    opened = LiveStream(config, model, batch=batch, provenance=reference.provenance, repeat=True)
    stream.continue_with(opened.passes())
    next(stream.going_on)
    # One token more than the passes before the last can hold, so that exactly this many are run.
    tokens = 1 + (n_passes - 1) * SEQUENCES * config.corpus.block_length
    storage = HarvestConfig(tokens=tokens, sequences_per_shard=n_passes * SEQUENCES)

    def run() -> None:
        with TemporaryDirectory() as folder:
            fill_folder(Path(folder) / "cache", storage, stream.provenance, stream.d_model, SEQUENCES, lambda: stream)

    return run


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
        "(b) bare loop, stopped at the layer": lambda: bare_loop(stream.model, passes),
        STREAM: running_stream(config, stream.model, stream),
        HARVEST: running_harvest(config, stream),
    }
    results = measured(methods)
    bare = results["(b) bare loop, stopped at the layer"]
    tokens = PASSES * SEQUENCES * config.corpus.block_length
    rows = []
    for name, taken in results.items():
        speeds = [tokens / each.wall for each in taken]
        spread = f"{statistics.median(speeds):,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f})"
        pairs = list(zip(bare, taken, strict=True))
        wall = statistics.median(reference.wall / each.wall for reference, each in pairs)
        cpu = statistics.median(reference.cpu / each.cpu for reference, each in pairs)
        rows.append([name, spread, f"{wall:.3f}", f"{cpu:.3f}"])
    added = overheads(config, stream)
    alone = statistics.median(each.cpu for each in bare) / PASSES
    write_table(
        "harvest",
        "Tokens per second from text to activations",
        ["method", "tokens/s, median (range)", "speed relative to (b)", "the same in CPU time"],
        rows,
        f"smollm2, residual stream into layer {LAYER} of 30, {SEQUENCES} sequences of {config.corpus.block_length} "
        f"tokens per forward pass, passes per round: {PASSES}, rounds: {ROUNDS}, each starting with a different "
        "method; ratios are medians over rounds. The stream reads, shuffles, tokenizes and packs the text, applies "
        "the token rules and forms batches; prefetching is off, so that all of its work is timed. The harvest stores "
        "directions in float16 and lengths in a hashed shard and writes its manifest, both flushed to disk; a thread "
        "reads ahead. The corpus is opened beforehand. Measured separately, with the model replaced by a stored "
        f"output, this work takes {added[STREAM] * 1e3:.0f} ms of CPU time per pass for the stream, "
        f"{added[STREAM] / alone:.1%} of (b), and {added[HARVEST] * 1e3:.0f} ms for the harvest, "
        f"{added[HARVEST] / alone:.1%} of (b). "
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_harvest.py`",
    )


if __name__ == "__main__":
    main()
