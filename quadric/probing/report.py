"""The tables of a probing, for the terminal and as Markdown."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quadric.evaluation.measures import Interval
from quadric.probing.labelled import TEST_SHARE
from quadric.probing.record import TRIVIAL, Probing
from quadric.probing.summary import Contrast, FamilyMean, shown_count, split_interval, summary_of

SPLIT_RATIO = TEST_SHARE / (1 - TEST_SHARE)
DETAIL_COUNT = 5
"""Features of the probes that are shown set by set."""


class Table(NamedTuple):
    """One table with its caption."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str


def tables_of(found: Probing) -> list[Table]:
    """All tables: means, paired differences, and every set."""
    summary = summary_of(found)
    made: list[Table] = []
    for pooling in found.settings["poolings"]:
        means = [each for each in summary.auc if each.pooling == pooling]
        contrasts = [each for each in summary.auc_contrasts if each.pooling == pooling]
        made += [_auc_means(means, pooling), _auc_contrasts(contrasts, pooling)] if means else []
        fits = [each for each in summary.r2 if each.pooling == pooling]
        against = [each for each in summary.r2_contrasts if each.pooling == pooling]
        made += [_fits(found, fits, pooling), _fit_contrasts(against, pooling)] if fits else []
    made += [_set_scores(found)] if found.rows else []
    return [*made, _sets(found)]


def report_of(found: Probing) -> str:
    """All tables as Markdown."""
    settings = found.settings
    dictionaries = "; ".join(f"{name}: {shape}" for name, shape in settings["dictionaries"].items())
    lines = [
        f"# Probing at {settings['hook_point'] or 'rows of activations'}",
        "",
        f"{dictionaries}. {settings['seeds']} seeds, at most {settings['rows']} rows per set and "
        f"{settings['tokens']} tokens per text.",
    ]
    for table in tables_of(found):
        lines += ["", f"## {table.title}", "", *markdown_table(table.headings, table.rows), "", table.note]
    return "\n".join(lines) + "\n"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    cells = [headings, ["---", *(["---:"] * (len(headings) - 1))], *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]


def _pooled(pooling: str) -> str:
    return "at the last token" if pooling == "last" else "averaged over tokens"


def _auc_means(means: list[FamilyMean], pooling: str) -> Table:
    counts = list(dict.fromkeys(each.count for each in means))
    by_cell = {(each.label, each.count): each for each in means}
    labels = list(dict.fromkeys(each.label for each in means))
    rows = [[label, *(_value(by_cell.get((label, count))) for count in counts)] for label in labels]
    note = (
        f"Area under the ROC curve on held-out rows, mean over {max(each.n_sets for each in means)} binary sets ± half "
        "of the 95 % interval over sets. Columns: how many features the probe may use, chosen on training rows."
    )
    return Table(f"AUC, features {_pooled(pooling)}", ["features", *map(shown_count, counts)], rows, note)


def _auc_contrasts(contrasts: list[Contrast], pooling: str) -> Table:
    counts = list(dict.fromkeys(each.count for each in contrasts))
    by_cell = {(each.label, each.against, each.count): each for each in contrasts}
    pairs = list(dict.fromkeys((each.label, each.against) for each in contrasts))
    rows = [
        [f"{label} − {against}", *(_difference(by_cell.get((label, against, count))) for count in counts)]
        for label, against in pairs
    ]
    note = (
        "Paired difference in AUC, mean over sets ± half of the 95 % interval over sets; then sets won / tied / lost, "
        "where a set is tied if the interval over its splits holds 0."
    )
    headings = ["difference", *map(shown_count, counts)]
    return Table(f"Paired differences in AUC, features {_pooled(pooling)}", headings, rows, note)


def _fits(found: Probing, fits: list[FamilyMean], pooling: str) -> Table:
    names = [each.name for each in found.sets if each.kind != "binary"]
    by_cell: dict[tuple[str, str], list[tuple[float, float | None]]] = {}
    for row in found.regressions:
        if row.pooling == pooling:
            by_cell.setdefault((row.label, row.set), []).append((row.r2, row.circular))
    rows = [[each.label, *(_fit(by_cell.get((each.label, name), [])) for name in names), _value(each)] for each in fits]
    note = (
        "R² of ridge regression on held-out rows, mean over seeds; for cyclic labels that of (cos, sin), with the "
        f"circular correlation in brackets. {found.settings['dimensions']} dimensions, except in the last row."
    )
    return Table(f"Continuous and cyclic labels, {_pooled(pooling)}", ["features", *names, "mean"], rows, note)


def _fit_contrasts(contrasts: list[Contrast], pooling: str) -> Table:
    rows = [[f"{each.label} − {each.against}", _difference(each)] for each in contrasts]
    note = "Paired difference in R², as above."
    return Table(f"Paired differences in R², {_pooled(pooling)}", ["difference", "R²"], rows, note)


def _set_scores(found: Probing) -> Table:
    """AUC of every set with a few features at the last token, with the interval over its splits."""
    pooling = found.settings["poolings"][0]
    scores: dict[tuple[str, str], list[float]] = {}
    for row in found.rows:
        if row.pooling == pooling and row.count == DETAIL_COUNT:
            scores.setdefault((row.set, row.label), []).append(row.auc)
    labels = list(dict.fromkeys(label for _, label in scores))
    names = list(dict.fromkeys(name for name, _ in scores))
    rows = [[name, *(_score(scores.get((name, label), [])) for label in labels)] for name in names]
    note = "± half of the 95 % interval over splits, widened because splits share rows."
    return Table(f"AUC of {DETAIL_COUNT} features {_pooled(pooling)}, set by set", ["set", *labels], rows, note)


def _sets(found: Probing) -> Table:
    rows = [
        [each.name, each.kind, f"{each.n_rows:,}", f"{each.n_tokens:,}", _words(each.words_auc), each.about]
        for each in found.sets
    ]
    note = (
        "Words: AUC of a probe on the words, marks and lengths of the text alone. "
        f"Sets above {TRIVIAL} are left out of all means and differences."
    )
    return Table("Sets", ["set", "label", "rows", "tokens", "words", "about"], rows, note)


def _words(auc: float | None) -> str:
    return "–" if auc is None else f"{auc:.3f}{' (left out)' if auc > TRIVIAL else ''}"


def _value(each: FamilyMean | None) -> str:
    return "–" if each is None else f"{each.value.mean:.3f}{_half(each.value)}"


def _half(interval: Interval) -> str:
    return f" ± {interval.high - interval.mean:.3f}" if interval.high > interval.low else ""


def _difference(each: Contrast | None) -> str:
    if each is None:
        return "–"
    return f"{each.difference.mean:+.3f}{_half(each.difference)}; {each.won}/{each.tied}/{each.lost}"


def _fit(values: list[tuple[float, float | None]]) -> str:
    if not values:
        return "–"
    r2 = sum(value for value, _ in values) / len(values)
    circular = [value for _, value in values if value is not None]
    return f"{r2:.2f}" + (f" ({sum(circular) / len(circular):.2f})" if circular else "")


def _score(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{sum(values) / len(values):.3f}{_half(split_interval(values, SPLIT_RATIO))}"
