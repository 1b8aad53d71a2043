"""Shared by the benchmarks: peak memory in a fresh process, interleaved timings, and tables of results."""

import gc
import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def peak_memory(work: Callable[..., Callable[[], object]], *arguments: Any) -> int:
    """Increase in peak memory, in bytes, while a fresh process runs `work(*arguments)()`.

    `work(*arguments)` prepares the run and is not counted.
    """
    return peak_and_result(work, *arguments)[0]


def peak_and_result(work: Callable[..., Callable[[], object]], *arguments: Any) -> tuple[int, Any]:
    """Peak memory as in `peak_memory`, and the return value of `work(*arguments)()`."""
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
