"""Newton–Schulz on the small Gram matrix in float32 against torch.optim.Muon's on the whole matrix in bfloat16.

On a CPU that computes bfloat16 in software, ours is many times as fast. On one with instructions for it, torch's is
faster for all but small matrices, and so are our own rounds in bfloat16, which a dense C can have.
"""

from statistics import median

import torch
from measure import alternate, median_and_spread, write_table

from quadric.train.optimizers import Muon

SHAPES = {"L or R, k = 256, d = 128": (512, 128), "L or R, k = d = 576": (1152, 576), "C, k = 2,304": (2304, 4608)}


def main() -> None:
    rows = []
    for name, shape in SHAPES.items():
        parameters = [torch.nn.Parameter(torch.randn(shape)) for _ in range(3)]
        for parameter in parameters:
            parameter.grad = torch.randn(shape)
        steps = {
            "torch": torch.optim.Muon(parameters[:1], lr=0.03, weight_decay=0.0, adjust_lr_fn="original").step,
            "ours": Muon(parameters[1:2], lr=0.03, momentum=0.95).step,
            "rounded": Muon(parameters[2:], lr=0.03, momentum=0.95, is_rounded=True).step,
        }
        seconds = alternate(steps, rounds=3)
        ratios = [f"{median(seconds['torch']) / median(seconds[each]):.1f}×" for each in ("ours", "rounded")]
        rows.append([f"{name}: {shape[0]:,} × {shape[1]:,}", *map(median_and_spread, seconds.values()), *ratios])
    write_table(
        "muon",
        "One step of Muon, torch.optim.Muon against ours",
        [
            "matrix", "torch (bfloat16, full matrix)", "ours (float32, Gram matrix)",
            "ours with `--gradient-dtype bfloat16` for dense C (bfloat16, full matrix)", "ours against torch",
            "rounded against torch",
        ],
        rows,
        "Median (range) of three alternating rounds, on a CPU with instructions for bfloat16. "
        "`python benchmarks/bench_muon.py`",
    )  # fmt: skip


if __name__ == "__main__":
    main()
