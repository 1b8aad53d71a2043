"""A report and a comparison as tables for the terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from quadric.studies.reports.run_comparison import MEASURES, SHOWN, RunComparison, short_names
from quadric.studies.reports.run_report import LABELS, SUMMARISED, RunReport, histogram, readable_bits

BARS = " ▁▂▃▄▅▆▇█"
HISTOGRAM_BINS = 24
SHAPE_BAR = 24
SHARES = ("captured_1", "captured", "captured_5")


def report_in_terminal(report: RunReport, top: int) -> Group:
    """Headline, shapes, histograms over all latents, and the most important latents."""
    return Group(_headline(report), "", _shapes(report), "", _histograms(report), "", _most_important(report, top))


def _headline(report: RunReport) -> Text:
    shape, hook = report.architecture, report.provenance["hook_point"] or "no hook point recorded"
    return Text.assemble(
        (report.run, "bold"),
        f"\n{report.dictionary()} over d = {shape['d_model']:,}, {_made_of(report)}; {hook}\n"
        f"all forms together: {readable_bits(report.bits.total)} at {report.bits.precision} bits per number\n"
        f"shapes about {report.about}; {report.n_copies():,} latents are copies of others",
    )


def _made_of(report: RunReport) -> str:
    shape = report.architecture
    if shape["n_hidden"] is None:
        return "each a direction, read as a half-space without curvature"
    density = f", density {shape['mixing_density']:.2g}" if "mixing_density" in shape else ""
    return f"from {shape['n_hidden']:,} {'squared ' if shape.get('same_factors') else ''}atoms{density}"


def _shapes(report: RunReport) -> Table:
    table = _table(f"Shapes, up to {report.latents.tolerance:.0%} of a latent's variation", "")
    table.add_column("latents", justify="right")
    table.add_column("", no_wrap=True)
    total = len(report.latents)
    for shape, count in report.shape_counts().items():
        table.add_row(shape, f"{count:,}", "█" * round(SHAPE_BAR * count / total))
    return table


def _histograms(report: RunReport) -> Table:
    table = _table("Distributions over latents that are not empty", "")
    table.add_column("least", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("largest", justify="right")
    table.add_column("median", justify="right")
    quantiles = report.summary()["quantiles"]
    for column in SUMMARISED:
        if values := quantiles[column]:
            shown = {name: readable(column, value) for name, value in values.items()}
            table.add_row(LABELS[column], shown["min"], _bars(report, column), shown["max"], shown["median"])
    return table


def _bars(report: RunReport, column: str) -> str:
    counts, _, _ = histogram(report.living(column), HISTOGRAM_BINS)
    most = max(counts)
    # A bin that holds anything shows at least the lowest bar.
    return "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in counts)


def _most_important(report: RunReport, top: int) -> Table:
    chosen = report.most_important(top)
    table = _table(f"The {len(chosen)} most important latents")
    for name in ("latent", "imp.", "curved", "rank", "top 3", "atoms", "λ+/λ−", "λ₁"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("shape", no_wrap=True)
    latents = report.latents
    for i in chosen:
        table.add_row(
            str(i),
            readable("importance", float(latents.importance[i])),
            readable("curvature", float(latents.curvature[i])),
            readable("effective_rank", float(latents.effective_rank[i])),
            readable("captured", float(latents.captured[i])),
            str(int(latents.support[i])),
            f"{int(latents.positive[i])}/{int(latents.negative[i])}",
            f"{float(latents.eigenvalue[i]):.2f}",
            _shape_cell(report, i),
        )
    return table


def _shape_cell(report: RunReport, latent: int) -> str:
    latents = report.latents
    words = f"{latents.figure[latent]}, −" if latents.sign[latent] < 0 else latents.figure[latent]
    original = int(latents.copy_of[latent])
    return words if original < 0 else f"{words} (copy of {original})"


def _table(title: str, *columns: str) -> Table:
    # A title wraps at the width of its table, so the table is made as wide as its title.
    table = Table(
        *columns, title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.min_width = len(title) + 2
    return table


def readable(column: str, value: float) -> str:
    """A number as its column shows it: shares in per cent, importance as a multiple, counts whole."""
    if column in (*SHARES, "curvature"):
        return f"{value:.0%}"
    if column == "importance":
        return f"{value:.2f}×"
    return f"{value:.0f}" if column in ("support", "dimension") else f"{value:.2f}"


def comparison_in_terminal(comparison: RunComparison) -> Group:
    """The main measures as matrices, and every pair with the values expected by chance."""
    matrices = [part for measure in SHOWN for part in (_matrix(comparison, measure), "")]
    return Group(*matrices, _pairs(comparison))


def _matrix(comparison: RunComparison, measure: str) -> Table:
    table = _table(MEASURES[measure].label, "", "run")
    for number in range(1, len(comparison.runs) + 1):
        table.add_column(str(number), justify="right")
    named = zip(short_names(comparison.runs), comparison.matrix(measure), strict=True)
    for number, (name, row) in enumerate(named, 1):
        table.add_row(str(number), Text(name), *[f"{value:.3f}" for value in row])
    return table


def _pairs(comparison: RunComparison) -> Table:
    table = _table("Each pair (in brackets: the first with a random initialization of the second)", "pair")
    chosen = (*SHOWN, "eigenspaces")
    for measure in chosen:
        table.add_column(MEASURES[measure].label.split(":")[0], justify="right")
    for (i, j), found in comparison.pairs.items():
        cells = [f"{MEASURES[m].of(found.agreement):.3f} ({MEASURES[m].of(found.random):.3f})" for m in chosen]
        table.add_row(f"{i + 1} – {j + 1}", *cells)
    return table
