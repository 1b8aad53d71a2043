"""`quadric steer`: what steering by one latent does, what it costs, and what baselines do."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from quadric.cli.flags import ModelCommand, OptionalPath, OptionalText, Paths, RunCommand
from quadric.cli.output import announce, say_json, write_results

Values = Annotated[tuple[float, ...], tyro.conf.arg(metavar="FLOAT ...", help_behavior_hint="(default: quantiles)")]


@dataclass(frozen=True, kw_only=True)
class Steer(ModelCommand, RunCommand):
    """Steer the language model by one latent, and compare effect and damage with baselines of equal effect.

    The quadric moves every token, but the first of a sequence, to the nearest point at which the latent has the value.
    Half of the prompts choose the doses of the baselines, the other half report.

    Example: quadric steer runs/demo --latent 81 --prompts prompts.txt
             quadric steer runs/demo --latent 81 --to 0.05 0.1 --prompts prompts.txt --topk runs/topk --out curve.csv
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder whose evidence has been collected, e.g. by quadric site."""
    latent: int
    """Index of the latent."""
    prompts: Path
    """Text file with one prompt per line, at least four."""
    to: Values = ()
    """Values of the latent, with the sign of its weights; by default the quantiles 0.95, 0.99 and 0.999 of its side."""
    topk: OptionalPath = None
    """Run with a TopK dictionary of the same hook point, for the baseline that clamps its best latent."""
    match: Annotated[
        tuple[Literal["hellinger", "own", "following"], ...], tyro.conf.arg(metavar="{hellinger,own,following} ...")
    ] = ("hellinger",)
    """Effects that the baselines are matched by: distance of predictions, or gain of the latent's own tokens or of
    those that follow them."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT ...")] = (0, 1, 2)
    """Each draws prompts, texts, random baselines and continuations."""
    new_tokens: int = 16
    """Length of the sampled continuations."""
    corpus_tokens: int = 4096
    """Tokens of the training text that distances and directions are estimated from."""
    corpus: OptionalText = None
    """Location of the text, if its recorded name is not enough to find it."""
    out: Paths = ()
    """Files to write: everything (.json), or one row per method, value and seed (.csv)."""

    def run(self) -> int:
        announce("steer", f"loading {self.run_folder}")
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.steering.of_run import read_prompts, steer_run
        from quadric.studies.steering.results import write_curve
        from quadric.studies.steering.terminal import curve_in_terminal

        check_endings(self.out)
        options = self.options("run_folder", "out", "json")
        options |= {"prompts": read_prompts(self.prompts), "to": self.to or None}
        with progress() as display:
            curve = steer_run(self.run_folder, **options, on_progress=display.report)
        if self.json:
            say_json(curve.as_json(), indent=1)
        else:
            safe_console().print(curve_in_terminal(curve))
        write_results(self.out, partial(write_curve, curve))
        return 0
