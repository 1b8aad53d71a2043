"""`quadric steer`: what steering by one latent does, what it costs, and what baselines do."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from quadric.cli.flags import OptionalPath, OptionalText, Paths
from quadric.cli.output import announce, say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from quadric.evaluation.measures import Interval
    from quadric.studies.steering import SteeringCurve

EFFECTS = {"Hellinger": "hellinger", "KL": "divergence", "own": "own", "following": "following"}
DAMAGES = {
    "text KL": "text_divergence",
    "text CE": "text_cross_entropy",
    "perplexity": "perplexity",
    "Mahal.": "mahalanobis",
    "nearest": "nearest",
}
Values = Annotated[tuple[float, ...], tyro.conf.arg(metavar="FLOAT ...", help_behavior_hint="(default: quantiles)")]


@dataclass(frozen=True, kw_only=True)
class Steer:
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
    name: OptionalText = None
    """Which autoencoder, if the run has several."""
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
    model: OptionalText = None
    """Location of the language model, if its recorded name is not enough to find it."""
    corpus: OptionalText = None
    """Location of the text, if its recorded name is not enough to find it."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, else the CPU."""
    out: Paths = ()
    """Files to write: everything (.json), or one row per method, value and seed (.csv)."""
    json: bool = False
    """Print everything as JSON instead of tables."""

    def run(self) -> int:
        announce("steer", f"loading {self.run_folder}")
        from quadric._io.results import check_endings
        from quadric._io.terminal import safe_console
        from quadric.cli.progress import progress
        from quadric.studies.steering.of_run import read_prompts, steer_run
        from quadric.studies.steering.results import write_curve

        check_endings(self.out)
        prompts = read_prompts(self.prompts)
        with progress() as display:
            found = steer_run(
                self.run_folder,
                self.latent,
                prompts,
                name=self.name,
                to=self.to or None,
                topk=self.topk,
                match=self.match,
                seeds=self.seeds,
                new_tokens=self.new_tokens,
                corpus_tokens=self.corpus_tokens,
                model=self.model,
                corpus=self.corpus,
                device=self.device,
                on_progress=display.report,
            )
        if self.json:
            say_json(found.as_json(), indent=1)
        else:
            console = safe_console()
            console.print(f"fires on: {_quoted(found.own)}", highlight=False, markup=False)
            console.print(f"followed by: {_quoted(found.following)}", highlight=False, markup=False)
            console.print(_table(found, EFFECTS, EFFECT_CAPTION))
            console.print(_table(found, DAMAGES, DAMAGE_CAPTION))
        for path in self.out:
            write_curve(found, path)
            say(f"wrote {path}", file=sys.stderr)
        return 0


EFFECT_CAPTION = (
    "Effect on the token after a prompt: mean ± half of the 95 % interval over seeds. Own, following: change of the "
    "probability of the tokens above. –: no dose has the effect that it was to be matched by."
)
DAMAGE_CAPTION = (
    "Damage. Text: KL and increase of cross-entropy per token on held-out text. Perplexity of steered continuations "
    "for the unmodified model. Mahalanobis distance, and distance to the nearest corpus token, whitened."
)


def _quoted(tokens: list[str]) -> str:
    return " ".join(repr(token) for token in tokens)


def _table(found: "SteeringCurve", columns: dict[str, str], caption: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    shown = None
    for each in found.summaries():
        if each.to is not None and (each.to, each.match) != shown and each.match is None:
            table.add_row(f"to {each.to:.4g}")
        elif each.match is not None and (each.to, each.match) != shown:
            table.add_row(f"  matched by {each.match}")
        shown = (each.to, each.match)
        cells = (_cell(each.means[name], each.reached) for name in columns.values())
        table.add_row(each.method if each.to is None else f"  {each.method}", *cells)
    return table


def _cell(value: "Interval | None", n_seeds: int) -> str:
    if value is None:
        return "–"
    spread = f"±{(value.high - value.low) / 2:.2g}" if n_seeds > 1 else ""
    return f"{value.mean:.3g}{spread}"
