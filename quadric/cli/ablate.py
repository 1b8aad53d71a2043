"""`quadric ablate`: does ablating a latent hurt the tokens on which it fires, and no others?"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.flags import OptionalText, Paths
from quadric.cli.output import announce, say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.evaluation.measures import Interval
    from quadric.studies.steering import AblationRow

NAMES = {"own": "the latent itself", "other": "another latent", "turned": "same form, turned"}


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Ablate the sparsest latents one by one: does it hurt the tokens on which they fire, and no others?

    Controls at the same tokens: another latent of similar density, and the same form turned by a random rotation. The
    result is also kept in RUN/ablation, where quadric figures finds it.

    Example: quadric ablate runs/demo
             quadric ablate runs/demo --latents 20 --mode rest --out ablation.csv
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder whose evidence has been collected, e.g. by quadric site."""
    name: OptionalText = None
    """Which autoencoder, if the run has several."""
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
    model: OptionalText = None
    """Location of the language model, if its recorded name is not enough to find it."""
    corpus: OptionalText = None
    """Location of the text, if its recorded name is not enough to find it."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, else the CPU."""
    out: Paths = ()
    """Files to write, with one row per latent (.csv, .json)."""
    json: bool = False
    """Print everything as JSON instead of a table."""

    def run(self) -> int:
        announce("ablate", f"loading {self.run_folder}")
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.steering.ablation import write_ablation
        from quadric.studies.steering.of_run import ablate_run

        check_endings(self.out)
        with progress() as display:
            rows = ablate_run(
                self.run_folder,
                name=self.name,
                latents=self.latents,
                mode=self.mode,
                sequences=self.sequences,
                texts=self.texts,
                seed=self.seed,
                model=self.model,
                corpus=self.corpus,
                device=self.device,
                on_progress=display.report,
            )
        if self.json:
            say_json([row.as_row() for row in rows], indent=1)
        else:
            safe_console().print(_table(rows))
        for path in self.out:
            write_ablation(rows, path)
            say(f"wrote {path}", file=sys.stderr)
        return 0


def _table(rows: "list[AblationRow]") -> "Table":
    from rich.table import Table

    from quadric.studies.steering.ablation import summarize

    caption = (
        f"{len(rows)} latents, mode {rows[0].mode}. Increase of cross-entropy (CE) and KL per token at the tokens on "
        "which the latent fires and at the others of the same sequences; mean ± half of the 95 % interval over "
        "latents. More: latents whose CE increases more where they fire."
    )
    table = Table(box=None, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    table.add_column("ablated", no_wrap=True)
    for heading in ("CE, fires", "elsewhere", "KL, fires", "elsewhere", "more"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in summarize(rows):
        cells = (_cell(value) for value in each.means.values())
        table.add_row(NAMES[each.name], *cells, str(each.more_where_fires))
    return table


def _cell(value: "Interval") -> str:
    spread = f"±{value.high - value.mean:.2g}" if value.high > value.low else ""
    return f"{value.mean:.3g}{spread}"
