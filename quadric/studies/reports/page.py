"""A report as one HTML file that needs no network and no other file."""

from html import escape
from typing import Any, NamedTuple

from quadric.studies.reports.facts import facts
from quadric.studies.reports.run_report import LABELS, SUMMARISED, RunReport, histogram
from quadric.studies.reports.terminal import SHARES, readable, shape_words

HISTOGRAM_BINS = 40
BAR_WIDTH, CHART_HEIGHT = 7, 90
CURVE_POINTS = 32


class Column(NamedTuple):
    """A column of the table of latents."""

    heading: str
    meaning: str
    is_words: bool = False


COLUMNS = {
    "latent": Column("latent", "Number of the latent, counted from 0."),
    "label": Column(
        "label",
        "Tokens that the latent prefers in the run's evidence, or a label that a language model wrote; “a ↔ b” are the "
        "positive and the negative sign.",
        is_words=True,
    ),
    "shape": Column(
        "shape",
        "The surface on which the latent is constant, about the centre. A minus sign marks a latent whose quadratic "
        "part is never positive.",
        is_words=True,
    ),
    "curvature": Column(
        "curvature",
        "Share of the latent's variance that no linear function of the token explains, from weights and the spread of "
        "the tokens. 0 % is a linear latent.",
    ),
    "copy_of": Column("copy of", "An earlier latent with nearly the same form; −1 for none."),
    "importance": Column("importance", "‖W‖² of the latent's form W, as a multiple of the average latent."),
    "effective_rank": Column(
        "effective rank",
        "(Σ|λ|)² / Σλ² of the quadratic part: the number of eigenvalues, were all of them equally large.",
    ),
    "captured_1": Column("top 1", "Share of Σ|λ| in the largest eigenvalue."),
    "captured": Column("top 3", "Share of Σ|λ| in the three largest eigenvalues."),
    "captured_5": Column("top 5", "Share of Σ|λ| in the five largest eigenvalues."),
    "support": Column("support", "Number of atoms that are mixed into the latent."),
    "positive": Column("λ+", "Number of positive eigenvalues that count for the shape."),
    "negative": Column("λ−", "Number of negative eigenvalues that count for the shape."),
    "eigenvalue": Column("λ₁", "The eigenvalue of largest magnitude."),
    "norm": Column("‖W‖", "Frobenius norm of the latent's form W."),
    "bits": Column("bits", "Bits that it takes to write the latent down on its own, atoms included."),
}
SHAPE_MEANINGS = {
    "constant": "the same for every token",
    "half-space": "linear: the latent grows along one direction",
    "elliptic paraboloid": "curved in some directions, all with one sign, and linear along another",
    "hyperbolic paraboloid": "curved in directions of both signs, and linear along another",
    "slab": "between two parallel planes: one direction matters",
    "ellipsoid": "closed: the latent grows in every direction of its eigenspace",
    "hyperboloid": "open: the latent grows in some directions and falls in others",
    "empty": "the form is zero",
}

# default-src 'none': whatever a run's name or provenance contains, the page loads and sends nothing.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<title>{title} · Quadric</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">{lead}</p>
<h2>Where it comes from</h2>
<div class="facts">{facts}</div>
<h2>Shapes</h2>
<p>How many latents have each shape, about {about}. A shape may leave out {tolerance} of what makes its latent vary.
{copies} latents are copies of others.</p>
<table class="shapes">{shapes}</table>
<h2>Distributions</h2>
<p>How many latents have each value, from the smallest to the largest; empty latents are left out.</p>
<div class="charts">{charts}</div>
<h2>Every latent</h2>
<details><summary>What the columns mean</summary><dl>{meanings}</dl></details>
<p>Click a column to sort by it. <label>Show <select id="shape"><option value="">all shapes</option>{options}
</select></label> <span id="shown"></span></p>
<table id="latents"><thead><tr>{header}</tr></thead><tbody>
{rows}
</tbody></table>
<script>{script}</script>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --faint: #667; --line: #d5dbe3; --bar: #3b6ea5; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --faint: #9aa5b4; --line: #38424f; --bar: #7fb0e0; --paper: #14191f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { overflow-wrap: anywhere; margin-bottom: 0; }
.lead { font-size: 1.1rem; margin-top: .2rem; }
.facts { display: flex; flex-wrap: wrap; gap: 0 3rem; } .facts section { flex: 1 1 22rem; min-width: 0; }
h3 { font-size: 1rem; margin: .6rem 0 .2rem; }
dl { display: grid; grid-template-columns: fit-content(50%) 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; } details dl { margin: .4rem 0 .8rem; }
td.label { white-space: normal; min-width: 10rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .5rem; text-align: right; white-space: nowrap; }
#latents { width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
#latents tr { border-bottom: 1px solid var(--line); }
#latents th { position: sticky; top: 0; background: var(--paper); }
#latents th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; }
#latents th[aria-sort=descending] button::after { content: " ▾"; }
#latents th[aria-sort=ascending] button::after { content: " ▴"; }
td.words, th.words { text-align: left; } .meaning { color: var(--faint); white-space: normal; }
.shapes .bar { display: inline-block; height: .8rem; max-width: 35vw; background: var(--bar); }
.charts { display: flex; flex-wrap: wrap; gap: 1.2rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { display: block; } svg rect, svg circle { fill: var(--bar); } svg text { fill: var(--faint); font-size: 11px; }
svg polyline { fill: none; stroke: var(--bar); stroke-width: 2; } svg line { stroke: var(--line); }
"""

_SCRIPT = """
const body = document.querySelector("#latents tbody"), choice = document.querySelector("#shape");
const all = [...body.rows];
function show() {
  const rows = all.filter(row => !choice.value || row.dataset.shape === choice.value);
  body.replaceChildren(...rows);
  document.querySelector("#shown").textContent = rows.length + " latents";
}
document.querySelectorAll("#latents th button").forEach((button, place) => button.addEventListener("click", () => {
  const head = button.parentElement, down = head.getAttribute("aria-sort") !== "descending";
  document.querySelectorAll("#latents th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => row.cells[place].dataset.value;
  const words = head.classList.contains("words");
  all.sort((a, b) => (words ? key(a).localeCompare(key(b)) : key(a) - key(b)) * (down ? -1 : 1));
  show();
}));
choice.addEventListener("change", show);
show();
"""


def report_as_page(report: RunReport) -> str:
    """The whole report as HTML; every word that comes from the run is escaped."""
    shape, shown = report.architecture, _columns_of(report)
    source = "weights alone" if report.labels is None else "weights alone; the labels come from the run's evidence"
    lead = f"{report.dictionary()} on activations of width {shape['d_model']:,}, from {source}."
    return _PAGE.format(
        title=escape(report.run),
        style=_STYLE,
        script=_SCRIPT,
        lead=escape(lead),
        facts=_facts(report),
        tolerance=f"{report.latents.tolerance:.1%}",
        about=escape(report.about),
        copies=f"{report.n_copies():,}",
        shapes=_shapes(report),
        charts="".join(_chart(report, column) for column in SUMMARISED) + _curve(report),
        meanings="".join(f"<dt>{escape(each.heading)}</dt><dd>{escape(each.meaning)}</dd>" for each in shown.values()),
        options="".join(f"<option>{escape(name)}</option>" for name in report.shape_counts()),
        header=_header(shown),
        rows=_rows(report, shown),
    )


def _columns_of(report: RunReport) -> dict[str, Column]:
    """The columns of the table; labels only where there are any."""
    return {name: column for name, column in COLUMNS.items() if name != "label" or report.labels is not None}


def _facts(report: RunReport) -> str:
    return "".join(
        f"<section><h3>{escape(heading)}</h3><dl>{_pairs(found)}</dl></section>"
        for heading, found in facts(report).items()
    )


def _pairs(found: dict[str, str]) -> str:
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in found.items())


def _shapes(report: RunReport) -> str:
    rows = "".join(_shape_row(report, shape) for shape in report.shape_counts())
    return f"<thead><tr><th></th><th>latents</th><th></th><th></th></tr></thead><tbody>{rows}</tbody>"


def _shape_row(report: RunReport, shape: str) -> str:
    count = report.shape_counts()[shape]
    width = round(160 * count / len(report.latents))
    bar = f'<td class="words"><span class="bar" style="width:{width}px"></span></td>'
    meaning = f'<td class="words meaning">{escape(SHAPE_MEANINGS[shape])}</td>'
    return f'<tr><td class="words">{escape(shape)}</td><td>{count:,}</td>{bar}{meaning}</tr>'


def _chart(report: RunReport, column: str) -> str:
    counts, low, high = histogram(report.living(column), HISTOGRAM_BINS)
    most = max(counts) or 1
    width = HISTOGRAM_BINS * BAR_WIDTH
    bars = "".join(
        f'<rect x="{i * BAR_WIDTH}" y="{CHART_HEIGHT * (1 - count / most):.1f}" width="{BAR_WIDTH - 1}" '
        f'height="{CHART_HEIGHT * count / most:.1f}"><title>{count}</title></rect>'
        for i, count in enumerate(counts)
        if count
    )
    ends = (
        f'<text x="0" y="{CHART_HEIGHT + 14}">{readable(column, low)}</text>'
        f'<text x="{width}" y="{CHART_HEIGHT + 14}" text-anchor="end">{readable(column, high)}</text>'
    )
    return _figure(LABELS[column], width, bars + ends)


def _curve(report: RunReport) -> str:
    """Median share captured by the first 1, 2, … eigenvalues, as in the right-hand plot of the paper's figure."""
    curve = report.captured_curve()[:CURVE_POINTS]
    width = HISTOGRAM_BINS * BAR_WIDTH
    places = [
        (4 + (width - 8) * i / max(1, len(curve) - 1), CHART_HEIGHT * (1 - share) + 2) for i, share in enumerate(curve)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places)
    ends = (
        f'<text x="0" y="{CHART_HEIGHT + 14}">1 eigenvalue</text>'
        f'<text x="{width}" y="{CHART_HEIGHT + 14}" text-anchor="end">{len(curve)}</text>'
    )
    frame = f'<line x1="0" x2="{width}" y1="2" y2="2"/>'
    return _figure("median share captured by the first …", width, f'{frame}<polyline points="{line}"/>{dots}{ends}')


def _figure(caption: str, width: int, drawing: str) -> str:
    size = f'width="{width}" height="{CHART_HEIGHT + 18}"'
    return f'<figure><figcaption>{escape(caption)}</figcaption><svg {size} role="img">{drawing}</svg></figure>'


def _header(shown: dict[str, Column]) -> str:
    cells = []
    for name, column in shown.items():
        attributes = f' title="{escape(column.meaning)}"' + (' class="words"' if column.is_words else "")
        attributes += ' aria-sort="descending"' if name == "importance" else ""
        cells.append(f'<th{attributes}><button type="button">{escape(column.heading)}</button></th>')
    return "".join(cells)


def _rows(report: RunReport, shown: dict[str, Column]) -> str:
    columns = report.columns()
    return "\n".join(_row(columns, shown, i) for i in report.most_important(len(report.latents)))


def _row(columns: dict[str, list[Any]], shown: dict[str, Column], i: int) -> str:
    cells = []
    for name, column in shown.items():
        value = columns[name][i]
        css = f' class="words {name}"' if column.is_words else ""
        key = f"{value:.7g}" if isinstance(value, float) else str(value)  # seven digits sort as well as seventeen
        cells.append(f'<td{css} data-value="{escape(key)}">{escape(_cell(columns, name, i))}</td>')
    return f'<tr data-shape="{escape(str(columns["shape"][i]))}">{"".join(cells)}</tr>'


def _cell(columns: dict[str, list[Any]], column: str, i: int) -> str:
    value = columns[column][i]
    if column == "shape":
        return shape_words(str(columns["figure"][i]), int(columns["dimension"][i]), int(columns["sign"][i]))
    if column in ("latent", "label", "positive", "negative", "support", "copy_of"):
        return str(value)
    if column == "bits":
        return f"{value:,.0f}"
    return (
        readable(column, value) if column in (*SHARES, "curvature", "importance", "effective_rank") else f"{value:.3g}"
    )
