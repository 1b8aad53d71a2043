"""Explanations as tables in a terminal."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from quadric.evidence.labels import readable
from quadric.explanations.record import Explanation, Firing, Token

SHOWN_LATENTS = 8
LONGEST_LABEL = 44
ENDS = (0.001, 0.999)


def explanation_in_terminal(found: Explanation) -> Group:
    """Every token with its strongest latents, then every strong latent with the tokens on which it fires."""
    notes = [Text(note, style="dim") for note in found.notes]
    return Group(_tokens(found), Text(""), _latents(found), *notes, Text(f"Strength: {found.ranking}.", style="dim"))


def quantile_words(quantile: float | None) -> str:
    """A quantile in per cent; beyond the outermost ones only the bound is known."""
    if quantile is None:
        return ""
    if quantile >= ENDS[1] - 1e-9:
        return "> 99.9 %"
    if quantile <= ENDS[0] + 1e-9:
        return "< 0.1 %"
    return f"{quantile:.1%}".replace("%", " %")


def _tokens(found: Explanation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("token", "latent", "label", "quantile", "energy"):
        width = LONGEST_LABEL if name == "label" else None
        table.add_column(name, justify="left" if name in ("token", "label") else "right", no_wrap=True, max_width=width)
    for token in found.tokens:
        if token.dropped:
            table.add_row(token_words(token), "", Text(f"({token.dropped})", style="dim"), "", "")
        for rank, each in enumerate(token.latents):
            cells = (str(each.latent), each.label, quantile_words(each.quantile), f"{each.share:.0%}")
            table.add_row(token_words(token) if rank == 0 else "", *cells)
    return table


def token_words(token: Token) -> str:
    """A token as a cell shows it: white space spelt out, and a mark for the rest of a character."""
    return readable(token.text.encode()) if token.text else "‥"


def _latents(found: Explanation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("latent", justify="right", no_wrap=True)
    table.add_column("label", no_wrap=True, max_width=LONGEST_LABEL)
    table.add_column("fires on (quantile)")
    for each in found.latents[:SHOWN_LATENTS]:
        table.add_row(str(each.latent), each.label, ", ".join(_firing(found, firing) for firing in each.firings))
    return table


def _firing(found: Explanation, firing: Firing) -> str:
    words = token_words(found.tokens[firing.token])
    return words if firing.quantile is None else f"{words} ({quantile_words(firing.quantile)})"
