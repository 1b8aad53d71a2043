"""Probing: where quadratic latents help, where they do not, and which packaged sets the words alone solve.

Probes the default sets with a bilinear dictionary and linear ones beside it, then measures how far the words, marks and
lengths of the texts go on all packaged binary sets. Writes benchmarks/results/probing.md, .png and .svg.

    quadric demo
    quadric train --layer 15 --prior topk --n-latents 512 --steps 300 --epochs 12 --cache runs/demo/activations \
        --out runs/topk512
    python benchmarks/bench_probing.py runs/demo runs/topk512 --out /tmp/probing
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from measure import RESULTS

from quadric._io.files import write_atomically
from quadric.run.folder import load
from quadric.studies.figures.probing import draw
from quadric.studies.figures.style import save, styled
from quadric.studies.probing import probe, summary_of
from quadric.studies.probing.catalogue import IDENTICAL, described_sets, load_sets
from quadric.studies.probing.classifying import word_scores
from quadric.studies.probing.files import VECTORS, write_probing
from quadric.studies.probing.labelled import class_split, sample
from quadric.studies.probing.record import TRIVIAL
from quadric.studies.probing.report import markdown_table, report_of

ROWS, SEEDS = 300, 3


def words_table() -> list[str]:
    """AUC of words and lengths on every packaged binary set, those above the limit first."""
    names = [each["name"] for each in described_sets() if each["kind"] == "binary"]
    found: dict[str, float] = {}
    for labelled in load_sets(names):
        rows = sample(labelled, ROWS)
        found[labelled.name] = float(np.mean([word_scores(rows, class_split(rows, s)).auc for s in range(SEEDS)]))
    solved = sorted((name for name in found if found[name] > TRIVIAL), key=lambda name: -found[name])
    rest = sorted((name for name in found if found[name] <= TRIVIAL), key=lambda name: -found[name])
    return [
        "## What words alone solve",
        "",
        f"AUC of a logistic regression on which words and marks occur in the text and how long it is, {ROWS} rows, "
        f"mean over {SEEDS} splits. Above {TRIVIAL}, a set is left out of all means: {len(solved)} of {len(found)}.",
        "",
        *markdown_table(["left out", "AUC"], ([name, f"{found[name]:.3f}"] for name in solved)),
        "",
        f"The others: {', '.join(f'{name} {found[name]:.2f}' for name in rest)}.",
        "",
        "Left out because another file of the wheel holds the same bytes: "
        + ", ".join(f"{copy} ({kept})" for copy, kept in IDENTICAL.items())
        + ".",
    ]


def main(options: argparse.Namespace) -> None:
    dictionaries = {Path(run).resolve().name: load(run) for run in options.runs}
    wall, cpu = time.perf_counter(), time.process_time()
    found = probe(
        dictionaries,
        seeds=SEEDS,
        rows=ROWS,
        cache=options.out / VECTORS,
        on_progress=lambda _, done, total, words: print(
            f"{time.process_time() - cpu:.0f} s: {done}/{total} {words}", flush=True
        ),
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    write_probing(found, options.out)
    tokens = sum(each.n_tokens for each in found.sets)
    timing = (
        f"{tokens:,} tokens of text; {cpu:.0f} s of CPU time, {wall:.0f} s of wall time with {torch.get_num_threads()} "
        "thread(s) on a shared machine. `python benchmarks/bench_probing.py`"
    )
    with styled():
        drawn = draw(summary_of(found), "last")
    for path in save(drawn, RESULTS, "probing"):
        print(path)
    (RESULTS / "probing.csv").unlink()
    text = report_of(found) + "\n" + "\n".join(words_table()) + f"\n\n{timing}\n"
    write_atomically(RESULTS / "probing.md", text.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders: a bilinear dictionary, and linear ones of the same layer")
    parser.add_argument("--out", type=Path, default=Path("/tmp/probing"), help="folder of all tables and activations")
    main(parser.parse_args())
