"""`quadric ablate`: does ablating a latent hurt the tokens on which it fires, and no others?"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import tyro

from quadric.cli.flags import ModelCommand, OptionalText, Paths, RunCommand
from quadric.cli.output import announce, say_json, write_results


@dataclass(frozen=True, kw_only=True)
class Ablate(ModelCommand, RunCommand):
    """Ablate the sparsest latents one by one: does it hurt the tokens on which they fire, and no others?

    Controls at the same tokens: another latent of similar density, and the same form turned by a random rotation. The
    result is also kept in RUN/ablation, where quadric figures finds it.

    Example: quadric ablate runs/demo
             quadric ablate runs/demo --latents 20 --mode rest --out ablation.csv
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder whose evidence has been collected, e.g. by quadric site."""
    latents: int = 50
    """How many of the sparsest distinct latents."""
    mode: Literal["zero", "rest"] = "zero"
    """zero: what a token has in the latent's own space, about the mean, is removed; rest: z goes to its median."""
    sequences: int = 6
    """Sequences read per latent: those in which it fires most."""
    texts: int = 120
    """Held-out documents that they are chosen from."""
    seed: int = 0
    """Seed of the controls."""
    corpus: OptionalText = None
    """Location of the text, if its recorded name is not enough to find it."""
    out: Paths = ()
    """Files to write, with one row per latent (.csv, .json)."""

    def run(self) -> int:
        announce("ablate", f"loading {self.run_folder}")
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.steering.ablation import write_ablation
        from quadric.studies.steering.of_run import ablate_run
        from quadric.studies.steering.terminal import ablation_in_terminal

        check_endings(self.out)
        with progress() as display:
            options = self.options("run_folder", "out", "json")
            rows = ablate_run(self.run_folder, **options, on_progress=display.report)
        if self.json:
            say_json([row.as_row() for row in rows], indent=1)
        else:
            safe_console().print(ablation_in_terminal(rows))
        write_results(self.out, partial(write_ablation, rows))
        return 0
