"""What steering by a latent's quadric does and costs on the embedded model, beside five baselines; ways between words
of ordered concepts; and the ablation of the sparsest latents.

The dictionary is that of `quadric demo`, seed 0, and a TopK dictionary of the same size and hook point. Seeds are those
of the measurement: which prompts choose and which report, which texts, which random baselines and continuations. Rows
are kept in benchmarks/results/steering.json as they are made, so that an interrupted run continues; the page beside it
is made from all of them.

    python benchmarks/bench_steering.py
    python benchmarks/bench_steering.py --run runs/demo --topk runs/topk --only curve
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cyclic import QUESTIONS, WAYS, cyclic_study
from measure import RESULTS, environment

import quadric
from quadric._io.files import write_atomically
from quadric.cli import main as command
from quadric.evaluation.measures import Interval, student_interval
from quadric.model import Dictionary
from quadric.studies.steering.ablation import AblationRow, Harm, ablation_study, sparsest_distinct, summarize
from quadric.studies.steering.curve import N_TEXTS, TEXT_LENGTH
from quadric.studies.steering.of_run import OpenedRun, load_linear, open_run, read_prompts
from quadric.studies.steering.reading import text_tokens

WORK = Path(tempfile.gettempdir()) / "quadric-benchmarks"
PROMPTS = Path(__file__).parent / "steering_prompts.txt"
SEEDS = (0, 1, 2)
N_CURVES, N_ABLATED, N_PAIRS = 10, 50, 8
N_PROMPTS, NEW_TOKENS = 16, 6
QUANTILE = 0.999
ABLATION_TEXTS, ABLATION_LENGTH, ABLATION_SEQUENCES = 120, 48, 4
METHODS = (
    "none", "quadric", "leading eigenvector", "difference of means", "TopK latent", "random direction",
    "random quadric",
)  # fmt: skip
TITLES = {
    "hellinger": "Hellinger", "divergence": "KL", "own": "own", "following": "following",
    "text_divergence": "text KL", "text_cross_entropy": "text CE", "perplexity": "perplexity",
    "mahalanobis": "Mahalanobis", "nearest": "nearest",
}  # fmt: skip
CURVE = (
    "The {count} sparsest distinct latents: {shown}. {seeds} seeds; "
    f"of {N_PROMPTS} prompts, half choose the dose and half report. The quadric projects every token but the first to "
    f"the quantile {QUANTILE} of z. Means over latents ± half of Student's 95 % interval, each latent averaged over "
    "seeds. *Matched*: pairs of latent and seed in which a dose with the quadric's effect was found. *Own* and "
    "*following*: change of the probability of the tokens on which the latent fires, and of those that follow them in "
    f"the text. Text: {N_TEXTS * TEXT_LENGTH} tokens of held-out documents. Perplexity of {NEW_TOKENS} sampled tokens "
    "per prompt. Mahalanobis distance and nearest neighbour in whitened activation space."
)
BETTER = "Pairs in which the quadric does better than the baseline: more of *own* and *following*, less of the others."
CYCLIC = (
    f"Questions {{templates}}; {N_PAIRS} pairs of words each, 9 points on every way; mean ± half of Student's interval "
    "over pairs. Captured: share of the variance between words in the latent's eigenspace. Accuracy: of the unmodified "
    "model, among the answers. Length over the distance of both questions' activations. *Moved* and *missing*: "
    "Hellinger distance of the last prediction from the first and from the wanted one, over that of the two questions' "
    "predictions. *Answer*: gain of the wanted answer's probability."
)
HOW = {
    "zero": "what a token has in the latent's own space, about the mean token, is removed",
    "rest": "z is projected to its median",
}
ABLATION = (
    "The {count} sparsest distinct latents that fire on at least 8 tokens of the text; {how}, at all positions but the "
    f"first. Increase of cross-entropy and KL per token on the {ABLATION_SEQUENCES} sequences of {ABLATION_LENGTH} "
    f"tokens in which the latent fires most, of {ABLATION_TEXTS} held-out documents; mean ± half of Student's interval "
    "over latents. *More*: latents for which the cross-entropy increases more where the latent fires than elsewhere."
)
Rows = dict[str, list[dict[str, Any]]]


class Kept:
    """Rows on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: Rows = json.loads(path.read_text()) if path.exists() else {}

    def add(self, part: str, rows: Sequence[dict[str, Any]]) -> None:
        self.rows.setdefault(part, []).extend(rows)
        write_atomically(self.path, (json.dumps(self.rows, ensure_ascii=False) + "\n").encode())


def demo(folder: Path) -> Path:
    """The run of `quadric demo`, made if it is missing."""
    if not (folder / "evidence").is_dir() and command(["demo", "--out", str(folder)]) != 0:
        raise SystemExit("quadric demo failed; see the error above")
    return folder


def linear(folder: Path, opened: OpenedRun) -> Dictionary:
    """A TopK dictionary of the same size, trained if it is missing."""
    if not folder.is_dir():
        size = opened.autoencoder.n_latents
        acts = quadric.harvest("smollm2", layer=15, tokens=110_000, out=WORK / "smollm2-15-train")
        quadric.fit(acts, size, prior="topk", steps=300, batch_tokens=2048, seed=0).save_pretrained(folder)
    return load_linear(folder)


def target(opened: OpenedRun, latent: int) -> float:
    """The quantile 0.999 of the side on which the latent fires, with the sign of the weights."""
    known = opened.evidence.statistics
    place = list(known.probabilities).index(QUANTILE)
    return float(opened.evidence.calibration.signs[latent]) * float(known.quantiles[latent][place])


def make_curves(opened: OpenedRun, topk: Dictionary, kept: Kept, matches: Sequence[Any]) -> None:
    """Curves of the sparsest distinct latents, one seed after the other."""
    prompts = read_prompts(PROMPTS)[:N_PROMPTS]
    corpus, texts = opened.corpus(), opened.held_out_texts()
    done = {(row["latent"], row["seed"]) for row in kept.rows.get("curve", [])}
    for seed in SEEDS:
        for latent in sparsest_distinct(opened.autoencoder, opened.evidence)[:N_CURVES]:
            if (latent, seed) in done:
                continue
            found = quadric.steering_curve(
                opened.model, opened.latent(latent), opened.evidence, prompts, corpus=corpus, texts=texts,
                to=target(opened, latent), topk=topk, match=matches, seeds=[seed], new_tokens=NEW_TOKENS,
            )  # fmt: skip
            kept.add("curve", [{**row, "label": opened.evidence.labels.of(latent)} for row in found.as_rows()])
            print(f"curve of latent {latent}, seed {seed}", flush=True)


def make_cyclic(opened: OpenedRun, kept: Kept) -> None:
    """Ways between the words of each concept."""
    done = {row["concept"] for row in kept.rows.get("cyclic", [])}
    questions = [each for each in QUESTIONS if each.concept not in done]

    def keep(finding: Any) -> None:
        facts = {"accuracy": finding.accuracy, "captured": finding.capture.captured, "most": finding.capture.most}
        facts |= {"chance": finding.capture.random_subspace, "template": finding.question.template}
        kept.add("cyclic", [{**asdict(row), **facts} for row in finding.rows])
        print(f"ways between {finding.question.concept}", flush=True)

    cyclic_study(opened.model, opened.point, opened.autoencoder, questions=questions, n_pairs=N_PAIRS, on_finding=keep)


def ablation_row(row: dict[str, Any]) -> AblationRow:
    harms = {name: Harm(*row[name]) for name in ("own", "other", "turned")}
    return AblationRow(**{**row, **harms})


def make_ablations(opened: OpenedRun, kept: Kept, mode: Any) -> None:
    """Ablations of the sparsest distinct latents."""
    part = f"ablation {mode}"
    sequences = text_tokens(opened.model, opened.held_out_texts(ABLATION_TEXTS), ABLATION_LENGTH)

    def keep(row: AblationRow) -> None:
        kept.add(part, [asdict(row)])
        print(f"{mode} ablation of latent {row.latent}: {row.own.fires:.2f} / {row.own.elsewhere:.2f}", flush=True)

    ablation_study(
        opened.model, opened.point, opened.autoencoder, opened.evidence, sequences, n_latents=N_ABLATED, mode=mode,
        n_sequences=ABLATION_SEQUENCES, known=[ablation_row(row) for row in kept.rows.get(part, [])], on_row=keep,
    )  # fmt: skip


def by_latent(rows: list[dict[str, Any]], measure: str) -> list[float]:
    """Means over seeds, one per latent; latents that were never measured are left out."""
    groups: dict[int, list[float]] = {}
    for row in rows:
        if row[measure] is not None:
            groups.setdefault(row["latent"], []).append(row[measure])
    return [statistics.fmean(values) for values in groups.values()]


def cell(values: list[float], digits: int) -> str:
    if len(values) < 2:
        return "–"
    found = student_interval(values)
    return f"{found.mean:.{digits}f} ± {found.high - found.mean:.{digits}f}"


def curve_table(rows: list[dict[str, Any]], match: str) -> list[str]:
    """One line per method."""
    lines = ["| method | matched | " + " | ".join(TITLES.values()) + " |", "|---" * (len(TITLES) + 2) + "|"]
    for method in METHODS:
        own = [row for row in rows if row["method"] == method and row["match"] in (None, match)]
        if own:
            reached = sum(row["hellinger"] is not None for row in own)
            cells = " | ".join(cell(by_latent(own, name), 1 if name == "perplexity" else 3) for name in TITLES)
            lines.append(f"| {method} | {reached} of {len(own)} | {cells} |")
    return lines


def cheapest(rows: list[dict[str, Any]], match: str) -> list[str]:
    """Pairs in which the quadric does less damage than a baseline, on the same latent and seed."""
    lines = ["| quadric against | " + " | ".join(list(TITLES.values())[2:]) + " |"]
    lines.append("|---" * (len(TITLES) - 1) + "|")
    quadric_rows = {(row["latent"], row["seed"]): row for row in rows if row["method"] == "quadric"}
    for method in METHODS[2:]:
        pairs = [
            (quadric_rows[row["latent"], row["seed"]], row)
            for row in rows
            if row["method"] == method and row["match"] == match and row["hellinger"] is not None
        ]
        wins = []
        for name in list(TITLES)[2:]:
            better = sum((a[name] > b[name]) == (name in ("own", "following")) and a[name] != b[name] for a, b in pairs)
            wins.append(f"{better} of {len(pairs)}")
        lines.append(f"| {method} | " + " | ".join(wins) + " |")
    return lines


def cyclic_tables(rows: list[dict[str, Any]]) -> list[str]:
    """One line per concept and way, over pairs of words."""
    numbers = ("length", "isometry", "moved", "missing", "off_target_start", "off_target", "off_target_end", "answer")
    lines = ["| concept | latent | captured | accuracy | way | pairs | " + " | ".join(numbers) + " |"]
    lines.append("|---" * (6 + len(numbers)) + "|")
    for concept in dict.fromkeys(row["concept"] for row in rows):
        for way in WAYS:
            own = [row for row in rows if row["concept"] == concept and row["way"] == way]
            there = [row for row in own if row["length"] is not None]
            first = own[0]
            captured = f"{first['captured']:.0%} (chance {first['chance']:.0%}, most {first['most']:.0%})"
            cells = " | ".join(cell([row[name] for row in there], 3) for name in numbers)
            lines.append(
                f"| {concept} | {first['latent']} | {captured} | {first['accuracy']:.0%} | {way} | "
                f"{len(there)} of {len(own)} | {cells} |"
            )
    return lines


def ablation_table(rows: list[AblationRow]) -> list[str]:
    """The latents themselves and both controls."""
    names = {"own": "the latent itself", "other": "another latent of similar density", "turned": "same form, turned"}
    lines = ["| ablated | CE where it fires | CE elsewhere | KL where it fires | KL elsewhere | more |"]
    lines.append("|---|---|---|---|---|---|")

    def shown(value: Interval) -> str:
        return f"{value.mean:.3f} ± {value.high - value.mean:.3f}"

    for each in summarize(rows):
        cells = " | ".join(shown(value) for value in each.means.values())
        lines.append(f"| {names[each.name]} | {cells} | {each.more_where_fires} of {each.n_latents} |")
    beaten = sum(row.own.fires > max(row.other.fires, row.turned.fires) for row in rows)
    said = f"Where the latent fires, its own ablation costs more than both controls for {beaten} of {len(rows)}."
    return [*lines, "", said]


def curve_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Effect and damage."""
    latents = {row["latent"]: row["label"] for row in rows}
    shown = ", ".join(f"{latent} ({label})" for latent, label in latents.items())
    seeds = len({row["seed"] for row in rows})
    lines = ["", "## Effect and damage", "", CURVE.format(count=len(latents), shown=shown, seeds=seeds)]
    for match in dict.fromkeys(row["match"] for row in rows if row["match"]):
        lines += ["", f"Baselines matched by **{match}**:", "", *curve_table(rows, match)]
        lines += ["", BETTER, "", *cheapest(rows, match)]
    return lines


def cyclic_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Ways between words."""
    templates = ", ".join(f"“{each}”" for each in dict.fromkeys(row["template"] for row in rows))
    return ["", "## Ways between words", "", CYCLIC.format(templates=templates), "", *cyclic_tables(rows)]


def ablation_lines(rows: list[dict[str, Any]], mode: str) -> list[str]:
    """Ablation of many latents."""
    text = ABLATION.format(count=len(rows), how=HOW[mode])
    return ["", f"## Ablation, mode {mode}", "", text, "", *ablation_table([ablation_row(row) for row in rows])]


def page(rows: Rows) -> str:
    """The committed tables."""
    about = " ".join((__doc__ or "").partition("\n\n    ")[0].split())
    lines = ["# Steering on the embedded model", "", f"`python benchmarks/bench_steering.py`. {about}"]
    if found := rows.get("curve"):
        lines += curve_lines(found)
    if found := rows.get("cyclic"):
        lines += cyclic_lines(found)
    for mode in HOW:
        if found := rows.get(f"ablation {mode}"):
            lines += ablation_lines(found, mode)
    return "\n".join([*lines, "", environment(), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=WORK / "demo", help="run of quadric demo; made if it is missing")
    parser.add_argument("--topk", type=Path, default=WORK / "topk", help="TopK dictionary; trained if it is missing")
    parser.add_argument("--match", nargs="*", default=["hellinger"], help="effects that baselines are matched by")
    parser.add_argument("--only", nargs="*", choices=("curve", "cyclic", "zero", "rest"), help="parts to measure")
    options = parser.parse_args()
    kept = Kept(RESULTS / "steering.json")
    opened = open_run(demo(options.run))
    parts: dict[str, Callable[[], None]] = {
        "curve": lambda: make_curves(opened, linear(options.topk, opened), kept, options.match),
        "zero": lambda: make_ablations(opened, kept, "zero"),
        "cyclic": lambda: make_cyclic(opened, kept),
        "rest": lambda: make_ablations(opened, kept, "rest"),
    }
    for name, make in parts.items():
        if options.only is None or name in options.only:
            make()
    write_atomically(RESULTS / "steering.md", page(kept.rows).encode())


if __name__ == "__main__":
    main()
