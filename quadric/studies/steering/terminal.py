"""Steering curves and ablation studies as tables for the terminal."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from quadric._io.terminal import number_table
from quadric.evaluation.measures import Interval
from quadric.studies.steering.ablation import AblationRow, summarize
from quadric.studies.steering.results import SteeringCurve

EFFECTS = {"Hellinger": "hellinger", "KL": "divergence", "own": "own", "following": "following"}
DAMAGES = {
    "text KL": "text_divergence",
    "text CE": "text_cross_entropy",
    "perplexity": "perplexity",
    "Mahal.": "mahalanobis",
    "nearest": "nearest",
}
EFFECT_CAPTION = (
    "Effect on the token after a prompt: mean ± half of the 95 % interval over seeds. Own, following: change of the "
    "probability of the tokens above. –: no dose has the effect that it was to be matched by."
)
DAMAGE_CAPTION = (
    "Damage. Text: KL and increase of cross-entropy per token on held-out text. Perplexity of steered continuations "
    "for the unmodified model. Mahalanobis distance, and distance to the nearest corpus token, whitened."
)
ABLATED = {"own": "the latent itself", "other": "another latent", "turned": "same form, turned"}
LAYOUT: dict[str, Any] = {"box": None, "padding": (0, 1, 0, 0), "caption_justify": "left"}


def curve_in_terminal(curve: SteeringCurve) -> Group:
    """The tokens of the latent, and what every method does to them and to other text."""
    return Group(
        Text(f"fires on: {_quoted(curve.own)}"),
        Text(f"followed by: {_quoted(curve.following)}"),
        _curve_table(curve, EFFECTS, EFFECT_CAPTION),
        _curve_table(curve, DAMAGES, DAMAGE_CAPTION),
    )


def ablation_in_terminal(rows: list[AblationRow]) -> Table:
    """What ablating the latents does, beside the controls."""
    caption = (
        f"{len(rows)} latents, mode {rows[0].mode}. Increase of cross-entropy (CE) and KL per token at the tokens on "
        "which the latent fires and at the others of the same sequences; mean ± half of the 95 % interval over "
        "latents. More: latents whose CE increases more where they fire."
    )
    headings = ("ablated", "CE, fires", "elsewhere", "KL, fires", "elsewhere", "more")
    cells = (
        (ABLATED[summary.name], *map(_cell, summary.means.values()), str(summary.more_where_fires))
        for summary in summarize(rows)
    )
    return number_table(headings, cells, caption=caption, **LAYOUT)


def _quoted(tokens: list[str]) -> str:
    return " ".join(repr(token) for token in tokens)


def _curve_table(curve: SteeringCurve, columns: dict[str, str], caption: str) -> Table:
    table = number_table(("", *columns), (), caption=caption, **LAYOUT)
    shown = None
    for summary in curve.summaries():
        if summary.to is not None and (summary.to, summary.match) != shown and summary.match is None:
            table.add_row(f"to {summary.to:.4g}")
        elif summary.match is not None and (summary.to, summary.match) != shown:
            table.add_row(f"  matched by {summary.match}")
        shown = (summary.to, summary.match)
        cells = (_half(summary.means[name], summary.reached) for name in columns.values())
        table.add_row(summary.method if summary.to is None else f"  {summary.method}", *cells)
    return table


def _half(value: Interval | None, n_seeds: int) -> str:
    if value is None:
        return "–"
    spread = f"±{(value.high - value.low) / 2:.2g}" if n_seeds > 1 else ""
    return f"{value.mean:.3g}{spread}"


def _cell(value: Interval) -> str:
    spread = f"±{value.high - value.mean:.2g}" if value.high > value.low else ""
    return f"{value.mean:.3g}{spread}"
