"""Shared by the benchmarks: activations of smollm2, peak memory in a fresh process, counted FLOPs, interleaved timings,
and tables."""

import gc
import multiprocessing
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

if TYPE_CHECKING:
    from quadric.model.settings import Bilinear

RESULTS = Path(__file__).parent / "results"
CACHE = Path(tempfile.gettempdir()) / "quadric-benchmarks" / "smollm2-15"
"""Of smollm2 on the packaged text, residual stream into layer 15."""
LAYER = 15
HELD_OUT = 8192


def paper_settings(prior: str, n_latents: int, density: float, **changes: Any) -> "Bilinear":
    """A prior with the paper's lens and two atoms per latent; a composite C starts with all entries, as printed."""
    from quadric.model.settings import Bilinear, settings_class

    given: dict[str, Any] = {"n_latents": n_latents, "lens": "paper"} | changes
    if prior == "composite":
        n_hidden = given.get("n_hidden") or 2 * n_latents
        given = {"atoms_per_latent": density * n_hidden, "initial_density": 1.0} | given
    if prior == "atomic":
        given.pop("n_hidden", None)
    made = settings_class(prior)(**given)
    assert isinstance(made, Bilinear)
    return made


def layer_activations(n_tokens: int) -> Float[Tensor, "n d"]:
    """The first rows of the cache in float32; harvested on first use, at about a thousand tokens per second."""
    from quadric.cli import main as quadric
    from quadric.data import ActivationCache

    arguments = ["harvest", "--layers", str(LAYER), "--tokens", str(n_tokens), "--out", str(CACHE)]
    missing = not (CACHE / "manifest.json").exists() or len(ActivationCache(CACHE)) < n_tokens
    if missing and quadric(arguments) != 0:
        raise SystemExit("harvesting the activations failed; see the error above")
    cache, rows = ActivationCache(CACHE), []
    for number, shard in enumerate(cache.manifest.shards):
        rows.append(cache.shard(number).vectors(cache.hook_points[0], torch.arange(shard.rows)))
        if sum(map(len, rows)) >= n_tokens:
            break
    return torch.cat(rows)[:n_tokens]


def batches(tokens: Float[Tensor, "n d"], size: int, steps: int, seed: int = 0) -> list[Int[Tensor, " b"]]:
    """Row indices of `steps` seeded batches, drawn epoch by epoch without the held-out rows."""
    generator = torch.Generator().manual_seed(seed)
    n_rows, order = len(tokens) - HELD_OUT, torch.empty(0, dtype=torch.long)
    while len(order) < size * steps:
        order = torch.cat([order, torch.randperm(n_rows, generator=generator)])
    return [order[start * size : (start + 1) * size] for start in range(steps)]


def held_out(tokens: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
    """The last rows, which `batches` never returns."""
    return tokens[-HELD_OUT:]


def peak_and_result(work: Callable[..., Callable[[], object]], *arguments: Any) -> tuple[int, Any]:
    """Increase in peak memory, in bytes, while a fresh process runs `work(*arguments)()`, and what that returns.

    `work(*arguments)` prepares the run and is not counted.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (work, arguments))


def _peak(work: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> tuple[int, Any]:
    run = work(*arguments)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the high-water mark to current memory
    before = _high_water()
    result = run()
    return _high_water() - before, result


def _high_water() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def alternate(candidates: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, list[float]]:
    """Times of every candidate, interleaved so that a slow phase of the machine affects all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for number in range(rounds):
        first = number % len(candidates)
        for name, run in [*candidates.items()][first:] + [*candidates.items()][:first]:
            seconds[name].append(seconds_of(run))
    return seconds


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_and_spread(values: list[float]) -> str:
    """Median (range) in milliseconds."""
    return f"{statistics.median(values) * 1e3:.1f} ms ({min(values) * 1e3:.1f}–{max(values) * 1e3:.1f})"


def environment() -> str:
    """What the numbers were measured with, for the last line of a page."""
    return f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads."


def write_table(
    name: str, title: str, header: list[str], rows: list[list[str]], notes: str, folder: Path = RESULTS
) -> None:
    """Print the table and write it to NAME.md in `folder`."""
    lines = [f"# {title}", "", notes, "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", environment()]
    text = "\n".join(lines) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def counted_flops(work: Callable[[], object]) -> int:
    """FLOPs of the matrix products that `work` runs, two per multiplication; sparse products count by their entries."""
    aten = torch.ops.aten
    formulas = {aten.mm: _product, aten.addmm: _added_product, aten.sparse_sampled_addmm: _sampled_product}
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        work()
    return int(counter.get_total_flops())


def _product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """A dense product by its sizes; a sparse left factor by its entries."""
    if left.layout == torch.sparse_csr:
        return int(2 * left.values().numel() * right.shape[1])
    return 2 * left.shape[0] * left.shape[1] * right.shape[1]


def _added_product(_total: Tensor, left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    return _product(left, right)


def _sampled_product(pattern: Tensor, left: Tensor, *_: Any, **__: Any) -> int:
    return int(2 * pattern.values().numel() * left.shape[1])


for _formula in (_product, _added_product, _sampled_product):
    setattr(_formula, "_get_raw", True)  # noqa: B010  # makes the counter pass tensors instead of shapes
