"""`quadric evaluate`: how good trained autoencoders are, on held-out text."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from quadric.evaluation import Evaluation
    from quadric.evaluation.evaluating import Candidate


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Measure autoencoders on text that they were not trained on: error, density, predictions recovered.

    The result is also kept in RUN/evaluation.json, where quadric site finds it.

    Example: quadric evaluate runs/first
    Example: quadric evaluate runs/first runs/second --spliced-tokens 0 --out evaluation.csv evaluation.json
    """

    run_folders: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, folders made by save_pretrained, or hub ids; every autoencoder in them is measured."""
    tokens: int = 32768
    """Held-out tokens to measure the error on."""
    spliced_tokens: int = 4096
    """Tokens of text to predict with rebuilt vectors, for cross-entropy and divergence recovered; 0 leaves it out."""
    split: Literal["held_out", "train"] = "held_out"
    """The documents that training left out, or those it saw."""
    model: str | None = None
    """Where the language model is, if not where its recorded name says."""
    corpus: str | None = None
    """Another text, or where the recorded one is now."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one."""
    out: tuple[Path, ...] = ()
    """Files to write: everything (.json), or the table (.csv)."""
    json: bool = False
    """Print everything as JSON instead of a table."""

    def run(self) -> int:
        import json
        import sys

        from rich.console import Console

        from quadric.cli.counted_progress import part_progress
        from quadric.evaluation import EvaluationSettings, evaluate_on_text
        from quadric.evaluation.files import check_evaluation_paths, keep_in_runs, write_evaluations

        settings = EvaluationSettings(
            tokens=self.tokens,
            spliced_tokens=self.spliced_tokens,
            split=self.split,
            model=self.model,
            corpus=self.corpus,
        )
        check_evaluation_paths(self.out)
        candidates = _candidates(self.run_folders)
        with part_progress() as show:
            found = evaluate_on_text(candidates, settings, device=self.device, on_progress=show)
        keep_in_runs(found)
        if self.json:
            json.dump([each.as_json() for each in found], sys.stdout, ensure_ascii=False, indent=1)
            print()
        else:
            _print(found, Console())
        for path in self.out:
            write_evaluations(found, path)
            print(f"wrote {path}", file=sys.stderr)
        return 0


def _candidates(runs: tuple[str, ...]) -> "list[Candidate]":
    from quadric.evaluation.evaluating import Candidate
    from quadric.runs.folder import load_all

    return [Candidate(*each) for each in load_all(runs)]


def _print(found: "list[Evaluation]", console: "Console") -> None:
    for number, each in enumerate(found, 1):
        console.print(f"{number:>3}  {each.run}: {each.name}", soft_wrap=True, highlight=False)
    console.print(_table(found))
    console.print(
        f"Error: ‖X̂ − xxᵀ‖²/‖xxᵀ‖² on {found[0].measures.n_tokens:,} held-out tokens, 95 % interval over sequences. "
        "Dense: Hoyer density over 0.5. Dead: never reaches 1 % of the median latent."
    )
    if (recovered := found[0].recovered) is not None:
        console.print(
            "Recovered: the share of what zeroing / averaging the vectors costs in cross-entropy (CE) and divergence "
            f"(KL), over {recovered.n_tokens:,} predictions; untouched, CE is {recovered.original:.3f}. A rebuilt "
            "vector takes the sign for which x̂·x ≥ 0, and the length of x."
        )


def _table(found: "list[Evaluation]") -> "Table":
    from rich.table import Table

    spliced = any(each.recovered for each in found)
    table = Table()
    for heading in ("", "error", "95 %", "density", "dense", "dead", *(("CE recov.", "KL recov.") if spliced else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, each in enumerate(found, 1):
        measures = each.measures
        row = [
            str(number),
            f"{measures.error.mean:.3f}",
            f"{measures.error.low:.3f}–{measures.error.high:.3f}",
            f"{measures.density:.3f}",
            f"{measures.dense_share:.0%}",
            f"{measures.dead_share:.0%}",
        ]
        table.add_row(*row, *(_recovered_cells(each) if spliced else []))
    return table


def _recovered_cells(each: "Evaluation") -> list[str]:
    recovered = each.recovered
    if recovered is None:
        return ["", ""]
    ablations = (recovered.zero, recovered.mean)
    return [
        " / ".join(f"{recovered.cross_entropy(ablation):.0%}" for ablation in ablations),
        " / ".join(f"{recovered.divergence(ablation):.0%}" for ablation in ablations),
    ]
