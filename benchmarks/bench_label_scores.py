"""Scores of the demo's offline labels on held-out documents, and of wrong labels, which must be at chance.

Runs `quadric demo` first, unless the folder holds a finished one. Writes benchmarks/results/label_scores.md.

    python benchmarks/bench_label_scores.py [runs/demo]
"""

import sys
import time
from pathlib import Path

import numpy as np
from measure import write_table

from quadric.evidence import Evidence
from quadric.evidence.labels.scoring import score_rules
from quadric.evidence.record import LabelScore
from quadric.run.demonstration import default_demonstration, demonstrate
from quadric.run.folder import autoencoder_folders, evidence_folder
from quadric.run.sites import SITE
from quadric.viewer.writer import is_site

PROBABILITIES = (0.1, 0.25, 0.5, 0.75, 0.9)


def row(name: str, scores: list[LabelScore | None] | None) -> list[list[str]]:
    found = [score for score in scores or [] if score]
    kinds = {"detection": [each.detection for each in found], "fuzzing": [each.fuzzing for each in found]}
    return [
        [
            name,
            kind,
            f"{len(values)}",
            *(f"{q:.2f}" for q in np.quantile(values, PROBABILITIES)),
            f"{np.mean(values):.3f}",
        ]
        for kind, values in kinds.items()
    ]


def main(run: Path) -> None:
    if not is_site(run / SITE):
        demonstrate(run, default_demonstration(run), lambda *_: None)
    (name,) = autoencoder_folders(run)
    evidence = Evidence.load(evidence_folder(run, name))
    if evidence.labels.scores is None:
        raise SystemExit(f"the evidence of {run} is from before labels were scored; name another folder")
    began = time.process_time()
    own = score_rules(evidence, evidence.labels.texts)
    seconds = time.process_time() - began
    order = np.random.default_rng(0).permutation(evidence.n_latents)
    wrong = score_rules(evidence, [evidence.labels.texts[other] for other in order])
    write_table(
        "label_scores",
        "Scores of offline labels on held-out documents",
        ["labels", "score", "latents", *(f"{p:.0%}" for p in PROBABILITIES), "mean"],
        row("own", own) + row("of another latent", wrong),
        notes=(
            f"`python benchmarks/bench_label_scores.py`: quantiles over the {evidence.n_latents} latents of `quadric "
            f"demo` ({evidence.n_tokens:,} tokens) of the balanced accuracy of labels, judged by their own words; "
            f"chance is 0.5. Scoring all takes {seconds:.1f} s of one core."
        ),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo"))
