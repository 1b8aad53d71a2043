"""Explanations as one HTML file that needs no network, no script and no other file."""

from collections.abc import Sequence
from html import escape

from quadric.explanations.record import Explanation, Firing, TextLatent, Token, TokenLatent
from quadric.explanations.terminal import quantile_words, token_words

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3558f", "#b8860b", "#3d8fc4", "#7a5230")
"""Of the strongest latents of a text: Okabe and Ito's hues."""
OTHER = "#8a8790"
SHOWN_LATENTS = 12

# default-src 'none': whatever a text or a label contains, the page loads and sends nothing.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title} · Quadric</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="quiet">Strength of a latent on a token: {ranking}.</p>
{texts}
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --faint: #5c6370; --line: #d5dbe3; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --faint: #a3adba; --line: #38424f; --paper: #14191f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { overflow-wrap: anywhere; } h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin-top: 2rem; }
.quiet { color: var(--faint); font-size: .85rem; }
.text { font: 1.05rem/2 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.text span { border-bottom: 3px solid transparent; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .15rem .6rem .15rem 0; text-align: left; vertical-align: top; }
th { color: var(--faint); font-weight: 500; }
tr.first { border-top: 1px solid var(--line); }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.token { font-family: ui-monospace, monospace; white-space: nowrap; }
i.mark { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .4em; }
"""


def explanations_as_page(found: Sequence[Explanation], title: str) -> str:
    """One page about some texts; every word that comes from them is escaped."""
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        ranking=escape(found[0].ranking if found else ""),
        texts="\n".join(_text(each, number) for number, each in enumerate(found, 1)),
    )


def _text(found: Explanation, number: int) -> str:
    colours = {each.latent: COLOURS[rank] for rank, each in enumerate(found.latents[: len(COLOURS)])}
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in found.notes)
    return (
        f"<section><h2>Text {number}</h2>{_coloured(found, colours)}{notes}"
        f"<h2>Where latents fire</h2>{_latents(found, colours)}<h2>Tokens</h2>{_tokens(found, colours)}</section>"
    )


def _coloured(found: Explanation, colours: dict[int, str]) -> str:
    """The text, each token underlined in the colour of its strongest latent."""
    words = []
    for token in found.tokens:
        if not token.latents:
            words.append(f'<span class="quiet">{escape(token.text)}</span>')
            continue
        best = token.latents[0]
        tip = f"{best.latent}: {best.label} ({quantile_words(best.quantile)})"
        style = f"border-color:{colours.get(best.latent, OTHER)}"
        words.append(f'<span style="{style}" title="{escape(tip)}">{escape(token.text)}</span>')
    return f'<p class="text"><bdi>{"".join(words)}</bdi></p>'


def _latents(found: Explanation, colours: dict[int, str]) -> str:
    rows = "".join(_latent_row(found, each, colours) for each in found.latents[:SHOWN_LATENTS])
    return f"<table>{_head('latent', 'label', 'fires on')}<tbody>{rows}</tbody></table>"


def _latent_row(found: Explanation, each: TextLatent, colours: dict[int, str]) -> str:
    places = ", ".join(_firing(found, firing) for firing in each.firings)
    return (
        f'<tr class="first"><td class="number">{_mark(each.latent, colours)}{each.latent}</td>'
        f"<td><bdi>{escape(each.label)}</bdi></td><td>{places}</td></tr>"
    )


def _firing(found: Explanation, firing: Firing) -> str:
    words = quantile_words(firing.quantile)
    shown = f' <span class="quiet">{escape(words)}</span>' if words else ""
    return f"<bdi>{escape(token_words(found.tokens[firing.token]))}</bdi>{shown}"


def _tokens(found: Explanation, colours: dict[int, str]) -> str:
    rows = "".join(_token_rows(token, colours) for token in found.tokens)
    head = _head("token", "latent", "label", "quantile", "share of energy")
    return f"<table>{head}<tbody>{rows}</tbody></table>"


def _head(*names: str) -> str:
    numbers = ("latent", "quantile", "share of energy")
    cells = (f'<th class="number">{name}</th>' if name in numbers else f"<th>{name}</th>" for name in names)
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _token_rows(token: Token, colours: dict[int, str]) -> str:
    name = f'<td class="token"><bdi>{escape(token_words(token))}</bdi></td>'
    if token.dropped:
        return f'<tr class="first">{name}<td></td><td class="quiet">{escape(token.dropped)}</td><td></td><td></td></tr>'
    rows = []
    for rank, each in enumerate(token.latents):
        start = f'<tr class="first">{name}' if rank == 0 else "<tr><td></td>"
        rows.append(f"{start}{_cells(each, colours)}</tr>")
    return "".join(rows)


def _cells(each: TokenLatent, colours: dict[int, str]) -> str:
    return (
        f'<td class="number">{_mark(each.latent, colours)}{each.latent}</td><td><bdi>{escape(each.label)}</bdi></td>'
        f'<td class="number">{escape(quantile_words(each.quantile))}</td><td class="number">{each.share:.0%}</td>'
    )


def _mark(latent: int, colours: dict[int, str]) -> str:
    return f'<i class="mark" style="background:{colours[latent]}"></i>' if latent in colours else ""
