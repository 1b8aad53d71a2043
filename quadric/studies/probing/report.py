"""The tables of a probing, for the terminal and as Markdown."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Group

from quadric._io.terminal import number_table
from quadric.evaluation.measures import Interval
from quadric.studies.probing.labelled import TEST_SHARE
from quadric.studies.probing.results import (
    TRIVIAL,
    Contrast,
    FamilyMean,
    Probing,
    shown_count,
    split_interval,
    summary_of,
)

SPLIT_RATIO = TEST_SHARE / (1 - TEST_SHARE)
DETAIL_COUNT = 5
"""Features of the probes that are shown set by set."""
SHORT_COUNTS = (1, DETAIL_COUNT, None)
"""Numbers of features whose differences fit into a terminal."""
FEW_SETS = 3
"""Up to so many sets, the terminal shows each of them."""


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
        right = [each for each in summary.accuracy if each.pooling == pooling]
        made += [_auc_means(means, pooling), _accuracies(right, pooling)] if means else []
        made += _auc_contrasts([each for each in summary.auc_contrasts if each.pooling == pooling], pooling)
        fits = [each for each in summary.r2 if each.pooling == pooling]
        made += [_fits(found, fits, pooling)] if fits else []
        made += _fit_contrasts([each for each in summary.r2_contrasts if each.pooling == pooling], pooling)
    made += [_set_scores(found)] if found.rows else []
    return [*made, _sets(found)]


def short_tables(found: Probing) -> list[Table]:
    """What fits into a terminal: means and paired differences, without intervals over sets; and single sets, if few."""
    summary = summary_of(found)
    made: list[Table] = []
    for pooling in found.settings["poolings"]:
        means = [each for each in summary.auc if each.pooling == pooling]
        made += [_auc_means(means, pooling, brief=True)] if means else []
        contrasts = [each for each in summary.auc_contrasts if each.pooling == pooling]
        made += _auc_contrasts(contrasts, pooling, brief=True)
        fits = [each for each in summary.r2 if each.pooling == pooling]
        made += [_mean_fits(fits, pooling)] if fits else []
    few = len(found.sets) <= FEW_SETS or any(each.is_trivial for each in found.sets)
    single = [_turned(_set_scores(found))] if found.rows and few else []
    return [*made, *single, *([_sets(found)] if few else [])]


def in_terminal(found: Probing) -> Group:
    """The short tables for the terminal."""
    return Group(
        *(
            number_table(
                table.headings,
                table.rows,
                title=table.title,
                title_justify="left",
                caption=table.note,
                caption_justify="left",
                box=None,
            )
            for table in short_tables(found)
        )
    )


def verdicts(found: Probing) -> list[str]:
    """Where latents do better than other features, and where worse, in sentences: by the 95 % interval over sets.

    Args:
        found: What was measured.

    Returns:
        One sentence per family that is compared, pooling and measure.
    """
    summary = summary_of(found)
    measured = (("AUC", summary.auc_contrasts), ("R²", summary.r2_contrasts))
    return [
        _verdict([each for each in contrasts if (each.pooling, each.label) == (pooling, label)], measure)
        for pooling in found.settings["poolings"]
        for measure, contrasts in measured
        for label in dict.fromkeys(each.label for each in contrasts if each.pooling == pooling)
    ]


def _verdict(contrasts: list[Contrast], measure: str) -> str:
    """One family, one pooling, one measure."""
    counted = measure == "AUC"
    better = _against([each for each in contrasts if each.difference.low > 0], counted)
    worse = _against([each for each in contrasts if each.difference.high < 0], counted)
    place = _pooled(contrasts[0].pooling)
    return (
        f"{measure} of {contrasts[0].label}, {place}: higher than {better or 'none'}; lower than {worse or 'none'}; "
        "elsewhere the sets show no difference."
    )


def _against(contrasts: list[Contrast], counted: bool) -> str:
    """The families of some contrasts, each with its numbers of features."""
    by_family: dict[str, list[str]] = {}
    for each in contrasts:
        by_family.setdefault(each.against, []).append(shown_count(each.count))
    return ", ".join(f"{name} ({', '.join(counts)})" if counted else name for name, counts in by_family.items())


def report_of(found: Probing) -> str:
    """All tables as Markdown."""
    settings = found.settings
    dictionaries = "; ".join(f"{name}: {shape}" for name, shape in settings["dictionaries"].items())
    lines = [
        f"# Probing at {settings['hook_point'] or 'rows of activations'}",
        "",
        f"{dictionaries}. {settings['seeds']} seeds, at most {settings['rows']} rows per set and "
        f"{settings['tokens']} tokens per text.",
        "",
        *(f"- {sentence}" for sentence in verdicts(found)),
        "",
        "In brackets: numbers of features. A difference counts if its 95 % interval over sets leaves out 0.",
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


def _auc_means(means: list[FamilyMean], pooling: str, brief: bool = False) -> Table:
    half = "" if brief else " ± half of the 95 % interval over sets"
    note = (
        f"Area under the ROC curve on held-out rows, mean over {max(each.n_sets for each in means)} binary sets{half}. "
        "Columns: how many features the probe may use, chosen on training rows."
    )
    return Table(f"AUC, features {_pooled(pooling)}", *_by_count(means, brief), note)


def _accuracies(means: list[FamilyMean], pooling: str) -> Table:
    note = "Share of held-out rows that the probe classifies rightly; half of the rows are of each class."
    return Table(f"Accuracy, features {_pooled(pooling)}", *_by_count(means), note)


def _by_count(means: list[FamilyMean], brief: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: one row per family, one column per number of features."""
    counts = list(dict.fromkeys(each.count for each in means))
    by_cell = {(each.label, each.count): each for each in means}
    labels = list(dict.fromkeys(each.label for each in means))
    rows = [[label, *(_value(by_cell.get((label, count)), brief) for count in counts)] for label in labels]
    return ["features", *map(shown_count, counts)], rows


def _auc_contrasts(contrasts: list[Contrast], pooling: str, brief: bool = False) -> list[Table]:
    """One table for every family that is compared with the others."""
    counts = list(dict.fromkeys(each.count for each in contrasts if not brief or each.count in SHORT_COUNTS))
    by_cell = {(each.label, each.against, each.count): each for each in contrasts}
    half = "" if brief else " ± half of the 95 % interval over sets"
    note = (
        f"Paired difference in AUC, mean over sets{half}; then sets won / tied / lost. A set is tied if the interval "
        "over its splits holds 0."
    )
    made = []
    for label in dict.fromkeys(each.label for each in contrasts):
        others = list(dict.fromkeys(each.against for each in contrasts if each.label == label))
        cells = [[_difference(by_cell.get((label, other, count)), brief) for count in counts] for other in others]
        rows = [[other, *own] for other, own in zip(others, cells, strict=True)]
        made.append(Table(f"AUC of {label} minus …, {_pooled(pooling)}", ["…", *map(shown_count, counts)], rows, note))
    return made


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


def _mean_fits(fits: list[FamilyMean], pooling: str) -> Table:
    note = (
        f"R² on held-out rows, mean over {max(each.n_sets for each in fits)} continuous and cyclic sets ± half of the "
        "95 % interval over sets; the report has every set."
    )
    rows = [[each.label, _value(each)] for each in fits]
    return Table(f"Continuous and cyclic labels, {_pooled(pooling)}", ["features", "R²"], rows, note)


def _fit_contrasts(contrasts: list[Contrast], pooling: str) -> list[Table]:
    made = []
    for label in dict.fromkeys(each.label for each in contrasts):
        rows = [[each.against, _difference(each)] for each in contrasts if each.label == label]
        note = "Paired difference in R², mean over sets ± half of the 95 % interval over sets; sets won / tied / lost."
        made.append(Table(f"R² of {label} minus …, {_pooled(pooling)}", ["…", "R²"], rows, note))
    return made


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


def _turned(table: Table) -> Table:
    """Rows as columns."""
    headings, *rows = (list(column) for column in zip(table.headings, *table.rows, strict=True))
    return Table(table.title, headings, rows, table.note)


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


def _value(each: FamilyMean | None, brief: bool = False) -> str:
    return "–" if each is None else f"{each.value.mean:.3f}{'' if brief else _half(each.value)}"


def _half(interval: Interval) -> str:
    return f" ± {interval.high - interval.mean:.3f}" if interval.high > interval.low else ""


def _difference(each: Contrast | None, brief: bool = False) -> str:
    if each is None:
        return "–"
    half = "" if brief else f"{_half(each.difference)};"
    return f"{each.difference.mean:+.3f}{half} {each.won}/{each.tied}/{each.lost}"


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
