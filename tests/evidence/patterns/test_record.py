"""Counts, best examples and the table say what the tests say."""

import csv
import io

from quadric.evidence.patterns.record import PATTERNS, DictionaryPatterns, PatternTest, patterns_csv
from tests.evidence.test_clusters import BASE

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
