"""Claim: float32 is the exact way to read activations on a CPU; what is faster, and how far it is from float32.

The forward pass of smollm2 up to layer 15: where its time goes, what other number types, compilation, attention kernels
and batch shapes do to its speed, what they do to activations and to the error that a trained dictionary has on them,
and how much padding is computed. Times are CPU time of one thread, in rounds that begin with another candidate.

    quadric demo && python benchmarks/bench_forward.py
    python benchmarks/bench_forward.py --quick                      few tokens; writes forward-quick.md
    python benchmarks/bench_forward.py --dictionary runs/x/autoencoders/y
"""

import argparse
import copy
import os
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from jaxtyping import Bool, Float, Int
from measure import RESULTS, environment, seconds_of
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import quadric
from quadric.data import ActivationConfig, BatchSize, LanguageModel, LiveStream
from quadric.data import length_groups as groups_module
from quadric.data.capture import capture
from quadric.data.corpus import Block, CorpusConfig, TokenBlocks
from quadric.data.hook_points import HookPoint
from quadric.data.length_groups import PASS_COST, groups_of, length_groups, pass_cost
from quadric.data.live_stream import padded
from quadric.data.models import find_model, load_model
from quadric.data.token_rules import Sequences, keep_tokens

LAYER, LENGTH, SEQUENCES = 15, 256, 8
FLOAT32, BFLOAT16 = "float32 (default)", "bfloat16 (`--model-dtype bfloat16`)"
PADDED = "padded to the longest of eight (before)"
GROUPED = "eight at a time, in groups of similar length"
NEVER = 10**9
"""A cost of a pass at which sequences are never divided into groups."""
KINDS = {
    "matrix products": ("mm", "linear", "mkldnn", "gemm"),
    "attention kernel": ("attention", "softmax"),
    "SiLU": ("silu",),
    "other sums and products: norms, rotary positions, residual stream": (
        *("mul", "add", "neg", "sub", "div", "pow", "mean", "rsqrt", "cos", "sin"),
    ),
    "copies, concatenation, conversion, embedding": (
        "copy",
        "cat",
        "clone",
        "embedding",
        "index",
        "_to_",
        "contiguous",
    ),
}


class Candidate(NamedTuple):
    """A way to run the forward pass."""

    model: LanguageModel
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Context of every pass."""

    def read(self, points: list[HookPoint], tokens: Int[Tensor, "s l"]) -> Float[Tensor, "s l d"]:
        with self.around():
            return capture(self.model, points, tokens)[str(points[0])]


class Setting(NamedTuple):
    """What is read, how often, and by whom."""

    model: LanguageModel
    stream: LiveStream
    passes: list[Sequences]
    rounds: int
    dictionary: Path

    @property
    def points(self) -> list[HookPoint]:
        return list(self.stream.points)

    @property
    def n_tokens(self) -> int:
        return sum(each.tokens.numel() for each in self.passes)

    def runs(self, candidate: Candidate) -> Callable[[], None]:
        """All passes of a candidate."""

        def run() -> None:
            for each in self.passes:
                candidate.read(self.points, each.tokens)

        return run


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call: all threads, and processes that it started and waited for."""
    before, start = os.times(), time.process_time()
    work()
    after = os.times()  # too coarse for this process itself
    children = after.children_user + after.children_system - before.children_user - before.children_system
    return time.process_time() - start + children


def alternating(candidates: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of every candidate, with another one first in each round, after a call that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for work in candidates.values():
        work()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(cpu_seconds(candidates[name]))
    return seconds


def speed(n_tokens: int, seconds: list[float]) -> str:
    """Tokens per second: median and range over rounds."""
    speeds = [n_tokens / each for each in seconds]
    return f"{statistics.median(speeds):,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f})"


def relative(reference: list[float], seconds: list[float]) -> str:
    """Speed relative to the reference, median over rounds."""
    return f"{statistics.median(a / b for a, b in zip(reference, seconds, strict=True)):.2f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def shortened(model: LanguageModel) -> LanguageModel:
    """A copy without the layers that are never run, so that many copies fit into memory."""
    layers = model.layers
    rest = list(layers[LAYER + 1 :])
    del layers[LAYER + 1 :]
    short = replace(model, causal=copy.deepcopy(model.causal))
    layers.extend(rest)
    return short


def with_eager_attention(model: LanguageModel) -> LanguageModel:
    """Attention as separate products and a softmax."""
    short = shortened(model)
    short.causal.set_attn_implementation("eager")  # type: ignore[operator]
    return short


def with_int8(model: LanguageModel) -> LanguageModel:
    """Linear layers with int8 weights, and inputs that are rounded to 8 bits on the fly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is moving this function to another package
        causal = torch.ao.quantization.quantize_dynamic(shortened(model).causal, {nn.Linear}, dtype=torch.qint8)
    return replace(model, causal=causal)


def compiled(model: LanguageModel) -> LanguageModel:
    """Every layer compiled by itself; the hook is outside."""
    short = shortened(model)
    for layer in short.layers[:LAYER]:
        layer.compile()
    return short


def candidates_of(model: LanguageModel) -> dict[str, Candidate]:
    """All ways to run the forward pass, in the order of the table."""
    low = load_model(find_model("smollm2"), device="cpu", dtype="bfloat16")
    return {
        FLOAT32: Candidate(model),
        "float32, eager attention": Candidate(with_eager_attention(model)),
        "float32, torch.compile of every layer": Candidate(compiled(model)),
        "float32 residual stream, products in bfloat16 (autocast)": Candidate(
            model, lambda: torch.autocast("cpu", dtype=torch.bfloat16)
        ),
        BFLOAT16: Candidate(low),
        "bfloat16, torch.compile of every layer": Candidate(compiled(low)),
        "int8 linear layers, dynamic": Candidate(with_int8(model)),
    }


class Read(NamedTuple):
    """Activations of all passes, of the tokens that the rules keep of float32's."""

    vectors: Float[Tensor, "n d"]
    masks: list[Bool[Tensor, "s l"]]


def kept(setting: Setting, candidate: Candidate, masks: list[Tensor] | None = None) -> Read:
    """The same tokens of every candidate."""
    found, point = [candidate.read(setting.points, each.tokens) for each in setting.passes], str(setting.points[0])
    if masks is None:
        rules, tokenizer = setting.stream.config.rules, setting.model.tokenizer
        pairs = zip(found, setting.passes, strict=True)
        masks = [keep_tokens({point: one}, each, rules, tokenizer).mask for one, each in pairs]
    return Read(torch.cat([one[mask].float() for one, mask in zip(found, masks, strict=True)]), masks)


def differences(x: Float[Tensor, "n d"], reference: Float[Tensor, "n d"]) -> list[str]:
    """Relative difference and 1 - cos per token: median (largest)."""
    x, reference = x.double(), reference.double()
    apart = (x - reference).norm(dim=1) / reference.norm(dim=1)
    turned = (1 - torch.cosine_similarity(x, reference)).clamp(min=0)
    return [f"{each.median():.1e} ({each.max():.1e})" for each in (apart, turned)]


def compared(setting: Setting) -> str:
    """Speed and exactness of every candidate."""
    candidates = candidates_of(setting.model)
    compiling = {name: cpu_seconds(setting.runs(each)) for name, each in candidates.items() if "compile" in name}
    seconds = alternating({name: setting.runs(each) for name, each in candidates.items()}, setting.rounds)
    ae, exact = quadric.load(setting.dictionary), kept(setting, candidates[FLOAT32])
    rows = []
    for name, candidate in candidates.items():
        vectors = kept(setting, candidate, exact.masks).vectors
        error = quadric.evaluate(ae, vectors, progress=False).error
        first = compiling.get(name)
        once = "–" if first is None else f"{first - statistics.median(seconds[name]):.0f}"
        own = [speed(setting.n_tokens, seconds[name]), relative(seconds[FLOAT32], seconds[name]), once]
        rows.append([name, *own, *differences(vectors, exact.vectors), f"{error:.5f}"])
    header = ["forward pass", "tokens/s, median (range)", "relative", "once, to compile: s"]
    header += ["‖x − x₃₂‖/‖x₃₂‖, median (max)", "1 − cos, median (max)", "error of the dictionary"]
    return table(header, rows)


def profiled(setting: Setting, candidate: Candidate) -> dict[str, float]:
    """Share of a pass's time by kind of operator; what is left is outside of operators."""
    tokens = setting.passes[0].tokens
    candidate.read(setting.points, tokens)
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        seconds = seconds_of(lambda: candidate.read(setting.points, tokens))  # the profiler's times are wall times
    shares = dict.fromkeys([*KINDS, "other operators"], 0.0)
    for event in trace.key_averages():
        name = event.key.removeprefix("aten::")
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "other operators")
        shares[kind] += event.self_cpu_time_total / 1e6 / seconds
    return {**shares, "outside of operators (Python, hooks)": max(0.0, 1 - sum(shares.values()))}


def profiles(setting: Setting) -> str:
    """Where time goes in float32 and in bfloat16."""
    low = Candidate(load_model(find_model("smollm2"), device="cpu", dtype="bfloat16"))
    full, half = profiled(setting, Candidate(setting.model)), profiled(setting, low)
    rows = [[kind, f"{full[kind]:.1%}", f"{half[kind]:.1%}"] for kind in full]
    return table(["part of a forward pass", "float32", "bfloat16"], rows)


def stopping(setting: Setting) -> str:
    """What is saved by not running later layers and the head."""

    def whole() -> None:
        for each in setting.passes:
            with torch.no_grad():
                setting.model.causal(input_ids=each.tokens, use_cache=False, output_hidden_states=True)

    def without_head() -> None:
        for each in setting.passes:
            capture(setting.model, setting.points, each.tokens, early_stop=False)

    stopped = setting.runs(Candidate(setting.model))
    methods = {
        "stopped at layer 15 (ours)": stopped,
        "all 30 layers, no head": without_head,
        "all layers and the head": whole,
    }
    seconds = alternating(methods, setting.rounds)
    first = seconds["stopped at layer 15 (ours)"]
    rows = [[name, speed(setting.n_tokens, each), relative(first, each)] for name, each in seconds.items()]
    return table(["forward pass", "tokens/s, median (range)", "relative"], rows)


def shapes(setting: Setting, counts: list[int]) -> str:
    """Speed by sequences per forward pass."""
    tokens = torch.cat([each.tokens for each in setting.passes])
    candidate = Candidate(setting.model)
    all_tokens = {count: tokens[torch.arange(count) % len(tokens)] for count in counts}
    works = {f"{n} × {LENGTH}": _reader(candidate, setting.points, each) for n, each in all_tokens.items()}
    seconds = alternating(works, setting.rounds)
    rows = [[f"{n} × {LENGTH}", speed(n * LENGTH, seconds[f"{n} × {LENGTH}"])] for n in counts]
    return table(["sequences × tokens", "tokens/s, median (range)"], rows)


def _reader(candidate: Candidate, points: list[HookPoint], tokens: Tensor) -> Callable[[], object]:
    return lambda: candidate.read(points, tokens)


class Starting(NamedTuple):
    """A line through the time of short passes: seconds = start + per_token · length."""

    start: float
    per_token: float

    @property
    def cost(self) -> float:
        """Tokens that take as long as starting a pass."""
        return self.start / self.per_token


def starting(setting: Setting) -> tuple[str, Starting]:
    """Time of a single sequence by its length, and the line through it up to 64 tokens."""
    lengths, row = [8, 16, 32, 64, 128, 256], setting.passes[0].tokens[:1]
    candidate = Candidate(setting.model)
    works = {str(each): _reader(candidate, setting.points, row[:, :each]) for each in lengths}
    seconds = {name: min(each) for name, each in alternating(works, max(3, setting.rounds)).items()}
    short = torch.tensor([[1.0, each] for each in lengths[:4]], dtype=torch.float64)
    times = torch.tensor([seconds[str(each)] for each in lengths[:4]], dtype=torch.float64)
    line = Starting(*torch.linalg.lstsq(short, times[:, None]).solution[:, 0].tolist())
    rows = [
        [f"1 × {each}", f"{seconds[str(each)] * 1e3:.0f} ms", f"{each / seconds[str(each)]:,.0f}"] for each in lengths
    ]
    return table(["sequence", "shortest time", "tokens/s"], rows), line


def documents(model: LanguageModel, count: int) -> list[Block]:
    """Documents of the default corpus, each as a sequence of its own."""
    corpus = CorpusConfig(packing="separate", block_length=LENGTH)
    return list(islice(TokenBlocks(corpus, model.tokenizer, bos=None, separator=None), count))


def padding(setting: Setting, n_timed: int, n_counted: int = 2_000) -> str:
    """Positions that the model computes for documents of their own lengths, and the time, before and now."""
    blocks, cost = documents(setting.model, n_counted), pass_cost(setting.model.device)
    real = sum(len(each.tokens) for each in blocks)
    groups = [blocks[start : start + SEQUENCES] for start in range(0, len(blocks), SEQUENCES)]
    read = [padded(each, 0, setting.model.device) for each in groups]
    sorted_first = length_groups([len(each.tokens) for each in blocks], cost, SEQUENCES)
    positions = {
        PADDED: sum(each.mask.numel() for each in read),
        GROUPED: sum(group.positions for each in read for group in groups_of(each.mask)),
        "all texts sorted first (`explain`, `probe`)": sum(group.positions for group in sorted_first),
    }
    timed = read[: max(1, n_timed // SEQUENCES)]
    seconds = alternating({name: _timed(setting, timed, name) for name in (PADDED, GROUPED)}, setting.rounds)
    n_tokens = sum(int(each.mask.sum()) for each in timed)
    rows = []
    for name, computed in positions.items():
        took = (
            [speed(n_tokens, seconds[name]), relative(seconds[PADDED], seconds[name])]
            if name in seconds
            else ["–", "–"]
        )
        rows.append([name, f"{computed:,}", f"{computed / real - 1:.1%}", *took])
    header = ["documents", "positions computed", "padding per token", "tokens/s, median (range)", "relative"]
    return f"{n_counted:,} documents, {real:,} tokens; times of the first {len(timed) * SEQUENCES}.\n\n" + table(
        header, rows
    )


def _timed(setting: Setting, read: list[Sequences], name: str) -> Callable[[], None]:
    cost = NEVER if name == PADDED else PASS_COST

    def run() -> None:
        with patch.object(groups_module, "PASS_COST", cost):
            for each in read:
                capture(setting.model, setting.points, each.tokens, each.mask)

    return run


def found_dictionary(given: Path | None) -> Path:
    """The dictionary whose error is measured: by default that of `quadric demo`."""
    places = [given] if given else sorted(Path("runs/demo/autoencoders").glob("*"))
    if not places or not places[0].is_dir():
        raise SystemExit(
            f"no dictionary in {given or 'runs/demo'}; run quadric demo first, or give --dictionary FOLDER"
        )
    return places[0]


def opened(quick: bool, dictionary: Path) -> Setting:
    """The model and held-out tokens, which the dictionary was not trained on."""
    sequences, passes, rounds = (2, 1, 1) if quick else (4, 2, 5)
    corpus = CorpusConfig(split="held_out", block_length=LENGTH)
    config = ActivationConfig(hook_points=str(LAYER), corpus=corpus, sequences_per_forward=sequences)
    stream = LiveStream.open(config, device="cpu", batch=BatchSize(sequences=1), prefetch=0)
    read = [each.sequences for each in islice(stream.passes(), passes)]
    return Setting(stream.model, stream, read, rounds, dictionary)


def page(setting: Setting, load: float, quick: bool) -> str:
    """All tables, with what they were measured on."""
    start_table, line = starting(setting)
    shape = f"{len(setting.passes)} × {len(setting.passes[0].tokens)} sequences of {LENGTH} held-out tokens"
    parts = [
        "# The forward pass",
        f"smollm2 up to the residual stream into layer {LAYER}, {shape}, CPU time of one thread, {setting.rounds} "
        "rounds that begin with another candidate each, after a first call that is not counted. "
        f"Load average at the start: {load:.1f}. `python benchmarks/bench_forward.py{' --quick' if quick else ''}`",
        "## Number types, compilation and attention",
        "x₃₂ is float32's activation of the same token; the error of the dictionary is that of `quadric evaluate` on "
        f"these activations, {setting.dictionary.name}. Compiling is CPU time as well, with the compiler's own.",
        compared(setting),
        "## Where time goes",
        "Self time of operators in one pass by `torch.profiler`: wall time, so only a quiet machine gives true shares.",
        profiles(setting),
        "## Layers that are not needed",
        stopping(setting),
        "## Sequences per forward pass",
        shapes(setting, [1, 2, 4] if quick else [1, 2, 4, 8, 16]),
        "## Short passes",
        f"A line through the lengths up to 64 gives {line.start * 1e3:.0f} ms for starting a pass, as much as "
        f"{line.cost:.0f} tokens take. `activations/length_groups.py` uses {PASS_COST}.",
        start_table,
        "## Documents of different lengths",
        padding(setting, 8 if quick else 64),
        environment(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few tokens, one round; writes forward-quick.md")
    parser.add_argument("--dictionary", type=Path, help="folder of an autoencoder of smollm2's layer 15")
    arguments = parser.parse_args()
    load, dictionary = os.getloadavg()[0], found_dictionary(arguments.dictionary)
    torch.set_num_threads(1)
    text = page(opened(arguments.quick, dictionary), load, arguments.quick)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"forward{'-quick' if arguments.quick else ''}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
