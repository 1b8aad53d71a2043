"""A run's report as one HTML file that needs nothing else: no network, no other file."""

from html import escape
from typing import Any

from quadric.reports.run_report import LABELS, SUMMARISED, RunReport, histogram, readable_bits
from quadric.reports.terminal import SHARES, readable, shape_words

HISTOGRAM_BINS = 40
BAR_WIDTH, CHART_HEIGHT = 7, 90
CURVE_POINTS = 32

COLUMNS = {
    "latent": "latent",
    "importance": "importance",
    "effective_rank": "effective rank",
    "captured_1": "top 1",
    "captured": "top 3",
    "captured_5": "top 5",
    "support": "support",
    "positive": "λ+",
    "negative": "λ−",
    "eigenvalue": "λ₁",
    "norm": "‖W‖",
    "bits": "bits",
    "shape": "shape",
}

# default-src 'none': whatever a run's name or provenance holds, the page loads and sends nothing.
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
<dl>{facts}</dl>
<h2>Shapes</h2>
<p>By the share of its latent's largest |λ| below which an eigenvalue counts as zero; the table of all latents is
made with {tolerance}.</p>
<table class="shapes">{shapes}</table>
<h2>All latents that are not empty</h2>
<div class="charts">{charts}</div>
<h2>Every latent</h2>
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
  max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { overflow-wrap: anywhere; margin-bottom: 0; }
.lead { font-size: 1.1rem; margin-top: .2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { padding: .15rem .6rem; text-align: right; white-space: nowrap; }
#latents { width: 100%; font-variant-numeric: tabular-nums; }
#latents tr { border-bottom: 1px solid var(--line); }
#latents th { position: sticky; top: 0; background: var(--paper); }
#latents th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; }
#latents th[aria-sort=descending] button::after { content: " ▾"; }
#latents th[aria-sort=ascending] button::after { content: " ▴"; }
td.words, th.words { text-align: left; }
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
    shape = report.architecture
    lead = f"{shape['n_latents']:,} {shape['prior']} latents over d = {shape['d_model']:,}, read from weights alone."
    return _PAGE.format(
        title=escape(report.run),
        style=_STYLE,
        script=_SCRIPT,
        lead=escape(lead),
        facts=_facts(report),
        tolerance=f"{report.latents.tolerance:g}",
        shapes=_shapes(report),
        charts="".join(_chart(report, column) for column in SUMMARISED) + _curve(report),
        options="".join(f"<option>{escape(name)}</option>" for name in report.shape_counts()),
        header=_header(),
        rows=_rows(report),
    )


def _facts(report: RunReport) -> str:
    bits = report.bits
    facts = {**report.architecture, **report.provenance}
    facts["description length"] = (
        f"{readable_bits(bits.total)} at {bits.precision} bits a number: atoms {readable_bits(bits.atoms)}, "
        f"supports {readable_bits(bits.supports)}, weights {readable_bits(bits.weights)}"
    )
    known = {name.replace("_", " "): value for name, value in facts.items() if value is not None}
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in known.items())


def _shapes(report: RunReport) -> str:
    by_tolerance = report.shape_counts_by_tolerance()
    head = "".join(f"<th>{tolerance:g}</th>" for tolerance in by_tolerance)
    rows = "".join(_shape_row(report, shape) for shape in report.shape_counts())
    return f"<thead><tr><th></th>{head}<th></th></tr></thead><tbody>{rows}</tbody>"


def _shape_row(report: RunReport, shape: str) -> str:
    counts = "".join(f"<td>{counts[shape]:,}</td>" for counts in report.shape_counts_by_tolerance().values())
    width = round(400 * report.shape_counts()[shape] / len(report.latents))
    bar = f'<td class="words"><span class="bar" style="width:{width}px"></span></td>'
    return f'<tr><td class="words">{escape(shape)}</td>{counts}{bar}</tr>'


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
    """The median share captured as rank grows, the right-hand plot of the paper's figure."""
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
    return _figure("captured by the first …, median", width, f'{frame}<polyline points="{line}"/>{dots}{ends}')


def _figure(caption: str, width: int, drawing: str) -> str:
    size = f'width="{width}" height="{CHART_HEIGHT + 18}"'
    return f'<figure><figcaption>{escape(caption)}</figcaption><svg {size} role="img">{drawing}</svg></figure>'


def _header() -> str:
    cells = []
    for column, label in COLUMNS.items():
        attributes = ' class="words"' if column == "shape" else ""
        attributes += ' aria-sort="descending"' if column == "importance" else ""
        cells.append(f'<th{attributes}><button type="button">{escape(label)}</button></th>')
    return "".join(cells)


def _rows(report: RunReport) -> str:
    columns = report.columns()
    return "\n".join(_row(columns, i) for i in report.most_important(len(report.latents)))


def _row(columns: dict[str, list[Any]], i: int) -> str:
    cells = []
    for column in COLUMNS:
        value = columns[column][i]
        css = ' class="words"' if column == "shape" else ""
        key = f"{value:.7g}" if isinstance(value, float) else str(value)  # seven digits sort as well as seventeen
        cells.append(f'<td{css} data-value="{escape(key)}">{escape(_cell(columns, column, i))}</td>')
    return f'<tr data-shape="{escape(str(columns["shape"][i]))}">{"".join(cells)}</tr>'


def _cell(columns: dict[str, list[Any]], column: str, i: int) -> str:
    value = columns[column][i]
    if column == "shape":
        return shape_words(str(columns["figure"][i]), int(columns["dimension"][i]), int(columns["sign"][i]))
    if column in ("latent", "positive", "negative", "support"):
        return str(value)
    if column == "bits":
        return f"{value:,.0f}"
    return readable(column, value) if column in (*SHARES, "importance", "effective_rank") else f"{value:.3g}"
