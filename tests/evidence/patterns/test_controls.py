"""Controls are those that were measured, and a pattern counts as more frequent only if it clearly is."""

from dataclasses import replace
from pathlib import Path

import pytest

from quadric.evidence.patterns.controls import (
    HEAVY,
    MEASURED,
    PERMUTED,
    RANDOM,
    UNTRAINED,
    Control,
    controls_of,
    is_exceeded,
)
from quadric.evidence.patterns.record import PATTERNS, DictionaryPatterns
from tests.evidence.patterns.test_record import FOUND, NOTHING, shown

DECISIONS = Path(__file__).parents[3] / "docs" / "decisions.md"
ROWS = {
    RANDOM: "same spectra, random directions",
    UNTRAINED: "untrained",
    PERMUTED: "token labels permuted",
    HEAVY: "t tokens, 4 degrees of freedom",
}


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
