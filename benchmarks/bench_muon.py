"""Claim: Newton–Schulz on the d×d Gram matrix in float32 is faster than torch.optim.Muon's on a CPU."""

from statistics import median

import torch
from measure import alternate, median_and_spread, write_table

from quadric.training.optimizers import Muon

SHAPES = [(512, 128), (1024, 576)]


def main() -> None:
    rows = []
    for shape in SHAPES:
        parameters = [torch.nn.Parameter(torch.randn(shape)) for _ in range(2)]
        for parameter in parameters:
            parameter.grad = torch.randn(shape)
        theirs = torch.optim.Muon(parameters[:1], lr=0.03, weight_decay=0.0, adjust_lr_fn="original")
        ours = Muon(parameters[1:], lr=0.03, momentum=0.95)
        seconds = alternate({"torch": theirs.step, "ours": ours.step}, rounds=3)
        ratio = median(seconds["torch"]) / median(seconds["ours"])
        rows.append([f"{shape[0]} × {shape[1]}", *map(median_and_spread, seconds.values()), f"{ratio:.1f}×"])
    write_table(
        "muon",
        "One step of Muon, torch.optim.Muon against ours",
        ["matrix", "torch (bfloat16, full matrix)", "ours (float32, Gram matrix)", "ratio"],
        rows,
        "Median (range) of three alternating rounds. `python benchmarks/bench_muon.py`",
    )


if __name__ == "__main__":
    main()
