"""Learning rates: the paper's constant one, and rates that fall to 0 over the last half. Which is right by default?

Trains every kind on tokens of `make reproduce-large`. Finished trainings are kept in the work folder, so an interrupted
benchmark goes on. `settings.learning_rate` in quadric/model/settings.py has the rule that follows.

    python benchmarks/bench_learning_rate.py [--k 512] [--steps 100 300] [--kinds …] [--seeds 0 1 2]
"""

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from large_cells import harvest_both
from measure import write_table
from reproduce_large import parsed, settings_of

import quadric
from quadric._io.files import write_json
from quadric._io.progress import no_progress
from quadric.studies.sweep.rows import error_at

KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "topk": {"prior": "topk"},
    "subspaces": {"prior": "subspaces"},
    "composite, as printed": {"lens": "paper"},
    "atomic, as printed": {"prior": "atomic", "lens": "paper"},
    "quadratic, as printed": {"prior": "quadratic", "lens": "paper"},
}
RATES = ((0.03, 0.0), (0.03, 0.5), (0.06, 0.5), (0.1, 0.5), (0.2, 0.5))
"""Learning rates, and the share of the steps over which they fall to 0; the paper's first."""
BATCH_TOKENS, HELD_OUT_TOKENS = 2048, 8192
OF_32 = "error_of_32_active"
MEASURES = {
    "error": "error", "error_constant": "constant", "error_linear": "linear", "error_quadratic": "quadratic",
    OF_32: "error of 32",
}  # fmt: skip


class Cell(NamedTuple):
    """One training."""

    n_latents: int
    steps: int
    kind: str
    rate: float
    decay: float
    seed: int

    @property
    def name(self) -> str:
        kind = self.kind.split(",")[0]
        return f"{kind}-k{self.n_latents}-steps{self.steps}-rate{self.rate:g}-decay{self.decay:g}-seed{self.seed}"


def measured(cell: Cell, activations: Path) -> dict[str, float]:
    """Train a cell and measure it on held-out documents."""
    ae = quadric.fit(
        activations / "train", cell.n_latents, **KINDS[cell.kind], steps=cell.steps, batch_tokens=BATCH_TOKENS,
        training=quadric.Training(learning_rate=cell.rate, learning_rate_decay=cell.decay), seed=cell.seed,
        progress=False,
    )  # fmt: skip
    found = quadric.evaluate(ae, activations / "held_out", tokens=HELD_OUT_TOKENS, progress=False)
    blocks = {name: getattr(found, name) for name in MEASURES if name != OF_32}
    return blocks | {OF_32: error_at(found.measures.by_active, 32)}


def table(found: dict[Cell, dict[str, float]]) -> list[list[str]]:
    """One row per kind, length and rate: means over seeds, with the range of the error."""
    rows = []
    for of in dict.fromkeys(cell[:5] for cell in found):
        each = [row for cell, row in found.items() if cell[:5] == of]
        n_latents, steps, kind, rate, decay = of
        how = f"{rate:g}, constant" if not decay else f"{rate:g}, falling over the last {decay:.0%}"
        errors = [row["error"] for row in each]
        spread = f" ({min(errors):.4f}–{max(errors):.4f})" if len(errors) > 1 else ""
        others = [f"{mean(row[name] for row in each):.3f}" for name in [*MEASURES][1:]]
        rows.append([kind, f"{n_latents:,}", str(steps), how, f"{mean(errors):.4f}{spread}", *others])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=512)
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--work", type=Path, default=Path("runs/reproduce-large"), help="that of make reproduce-large")
    options = parser.parse_args()
    settings = settings_of(parsed([]))
    harvest_both(settings, options.work, no_progress)
    folder = options.work / "learning_rate"
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[Cell, dict[str, float]] = {}
    for steps, kind, (rate, decay), seed in product(options.steps, options.kinds, RATES, options.seeds):
        cell = Cell(options.k, steps, kind, rate, decay, seed)
        path = folder / f"{cell.name}.json"
        if not path.is_file():
            write_json(path, measured(cell, options.work / "activations"))
        found[cell] = json.loads(path.read_text())
        print(f"{cell.name}: {found[cell]['error']:.4f}", flush=True)
    seeds = "one seed" if len(options.seeds) == 1 else f"mean (range) of {len(options.seeds)} seeds"
    write_table(
        "learning_rate",
        "Learning rates",
        ["dictionary", "k", "steps", "learning rate", *MEASURES.values()],
        table(found),
        f"smollm2, layer {settings.layer}, {BATCH_TOKENS:,} tokens per step from {settings.tokens:,} of "
        f"{settings.corpus.source}; errors on {HELD_OUT_TOKENS:,} tokens of held-out documents, whole, by block and "
        f"with the 32 largest latents of every token; {seeds}. `python benchmarks/bench_learning_rate.py`",
    )


if __name__ == "__main__":
    main()
