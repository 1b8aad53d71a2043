"""Counts, the table and controls say what tests say, and a pattern is more frequent only if it clearly is."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from quadric.evidence.patterns.record import (
    HEAVY,
    MEASURED,
    PATTERNS,
    PERMUTED,
    RANDOM,
    UNTRAINED,
    Control,
    DictionaryPatterns,
    PatternTest,
    controls_of,
    is_exceeded,
    patterns_csv,
)
from tests.evidence.test_clusters import BASE

DECISIONS = Path(__file__).parents[3] / "docs" / "decisions.md"
ROWS = {
    RANDOM: "same spectra, random directions",
    UNTRAINED: "untrained",
    PERMUTED: "token labels permuted",
    HEAVY: "t tokens, 4 degrees of freedom",
}
NAN = float("nan")
NOTHING = PatternTest(statistic=NAN, p_value=NAN, corrected=NAN, shown=False)


def shown(statistic: float, p_value: float = NAN, *tokens: str) -> PatternTest:
    return PatternTest(statistic=statistic, p_value=p_value, corrected=2 * p_value, shown=True, tokens=tokens)


FOUND = DictionaryPatterns(
    tests={
        0: {"cone": shown(2.0, 0.01, "=a"), "cluster": shown(4.0), "interpolation": NOTHING, "subset": NOTHING},
        1: {"cone": shown(3.0, 0.01, "b", "c"), "cluster": shown(6.0), "interpolation": NOTHING, "subset": NOTHING},
        2: {
            "cone": shown(9.0, 0.02), "cluster": NOTHING, "interpolation": NOTHING,
            "subset": PatternTest(statistic=0.05, p_value=0.001, corrected=0.002, shown=False),
        },
    },
    rate=0.05,
    n_heavy_tailed_cones=1,
)  # fmt: skip


def test_counts() -> None:
    assert FOUND.counts() == {"cone": 3, "cluster": 2, "interpolation": 0, "subset": 0}
    assert FOUND.n_tested() == {"cone": 3, "cluster": 2, "interpolation": 0, "subset": 1}
    assert repr(FOUND) == "DictionaryPatterns(3 latents: cone 3, cluster 2, interpolation 0, subset 0)"


def test_the_best_have_the_smallest_p_value_and_then_the_strongest_statistic() -> None:
    assert FOUND.best("cone") == [1, 0, 2]
    assert FOUND.best("cone", 1) == [1]
    assert FOUND.best("cluster") == [1, 0]
    assert FOUND.best("subset") == []


def test_the_table_has_what_was_tested_with_links_and_without_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(patterns_csv(FOUND, BASE))))
    assert [(row["latent"], row["pattern"]) for row in rows] == [
        ("0", "cone"), ("0", "cluster"), ("1", "cone"), ("1", "cluster"), ("2", "cone"), ("2", "subset"),
    ]  # fmt: skip
    assert rows[0]["tokens"] == "'=a"
    assert rows[2]["tokens"] == "b | c"
    assert (rows[0]["p_value"], rows[0]["corrected"]) == ("0.01", "0.02")
    assert (rows[1]["p_value"], rows[1]["link"]) == ("", "#/latent/0")
    assert set(PATTERNS) >= {row["pattern"] for row in rows}


def found_in(shown_count: int, tested: int) -> DictionaryPatterns:
    one, other = shown(3.0), replace(shown(0.0), shown=False)
    tests = {
        latent: dict.fromkeys(PATTERNS, NOTHING) | {"cluster": one if latent < shown_count else other}
        for latent in range(tested)
    }
    return DictionaryPatterns(tests=tests, rate=0.05, n_heavy_tailed_cones=0)


def test_the_counts_are_those_that_were_measured() -> None:
    rows = [line.strip("| ").split(" | ") for line in DECISIONS.read_text(encoding="utf-8").splitlines()]
    (columns,) = (row for row in rows if "interpolation" in row)
    measured = {row[0]: dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)}
    for pattern, controls in MEASURED.items():
        for name, counts in controls.items():
            assert measured[ROWS[name]][pattern] == "{} of {}".format(*counts), (pattern, name)


def test_heavy_tailed_cones_of_the_dictionary_itself_come_first() -> None:
    first, *others = controls_of(FOUND, "cone")
    assert first == Control(HEAVY, 1, 3, is_own=True)
    assert [each.name for each in others] == list(MEASURED["cone"])
    assert not any(each.is_own for each in others + controls_of(FOUND, "subset"))


def test_a_control_without_tests_is_none() -> None:
    nothing = DictionaryPatterns(tests={}, rate=0.05, n_heavy_tailed_cones=0)
    assert not [each for each in controls_of(nothing, "cone") if each.is_own]


@pytest.mark.parametrize(
    ("own", "control", "exceeded"),
    [((20, 60), (1, 60), True), ((20, 60), (20, 60), False), ((1, 60), (40, 60), False), ((2, 3), (0, 3), False)],
)
def test_more_frequent_means_clearly_so(own: tuple[int, int], control: tuple[int, int], exceeded: bool) -> None:
    assert is_exceeded(Control("nothing", *control, is_own=True), found_in(*own), "cluster") is exceeded
