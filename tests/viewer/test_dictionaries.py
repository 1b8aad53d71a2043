"""A site says of every pattern how often it was found, beside its controls, and of every latent what its tests say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from quadric.evidence.patterns.record import PATTERNS, controls_of
from quadric.evidence.patterns.statistics import SMALLEST_GAIN
from quadric.viewer.dictionaries import latent_patterns, pattern_search
from quadric.viewer.schema import LatentPattern
from tests.evidence.patterns.test_record import FOUND, NAN, shown


def test_kinds_have_their_counts_controls_and_best_examples() -> None:
    search = pattern_search(FOUND)
    assert search.method.startswith("the 3 latents most worth a look were tested, ")
    assert "at most 5 % of those that pass" in search.method
    assert tuple(kind.name for kind in search.kinds) == PATTERNS
    cone = search.kinds[0]
    assert (cone.n_shown, cone.n_tested, cone.best) == (3, 3, (1, 0, 2))
    assert [each.name for each in cone.controls] == [each.name for each in controls_of(FOUND, "cone")]
    assert [each.is_own for each in cone.controls][:2] == [True, False]


def test_the_viewer_names_the_gain_that_subsets_need() -> None:
    words = (Path(__file__).parents[2] / "web" / "src" / "ui" / "pattern-words.ts").read_text()
    (stated,) = re.findall(r"^const SMALLEST_GAIN = ([\d.]+);$", words, re.MULTILINE)
    assert float(stated) == SMALLEST_GAIN


def test_what_was_not_tested_has_no_numbers() -> None:
    tests = latent_patterns(FOUND)
    assert list(tests) == [0, 1, 2]
    assert tests[1][0] == LatentPattern(name="cone", statistic=3.0, p_value=0.02, shown=True, tokens=("b", "c"))
    assert tests[1][1].p_value is None  # clusters have none
    assert tests[0][3] == LatentPattern(name="subset", statistic=None, p_value=None, shown=False, tokens=())


def test_many_clusters_are_named_in_part() -> None:
    words = [str(number) for number in range(20)]
    found = replace(FOUND, tests={0: FOUND.tests[0] | {"cluster": shown(20.0, NAN, *words)}})
    assert latent_patterns(found)[0][1].tokens == tuple(words[:9])


@pytest.mark.parametrize("unit", ["token", "row"])
def test_words_are_about_the_unit(unit: str) -> None:
    words = repr(pattern_search(FOUND, unit))
    assert (f"structureless {unit}s" in words, f"cloud of one {unit}" in words) == (True, True)
    assert unit == "token" or "token" not in words
