"""What a site shows of the paper's example geometries."""

from quadric.evidence.patterns.controls import controls_of, is_exceeded
from quadric.evidence.patterns.record import CHANCE, MEANINGS, PATTERNS, STATISTICS, DictionaryPatterns, PatternTest
from quadric.viewer.schema import TOKEN, LatentPattern, PatternControl, PatternKind, PatternSearch

BEST = 5
"""Examples of each pattern that the landing page links to."""
MOST_TOKENS = 9
"""Clusters that are named in a list of examples; the panel of a latent's clusters names all."""


def pattern_search(found: DictionaryPatterns, unit: str = TOKEN) -> PatternSearch:
    """Describe the search for the manifest.

    Args:
        found: The patterns of the latents that were tested.
        unit: What a point is: token or row.

    Returns:
        Every pattern with its counts, controls and best examples.
    """
    method = (
        f"the {len(found.tests):,} latents most worth a look were tested, on the three axes that are shown first; "
        f"p-values are corrected for the number of latents, so that at most {found.rate:.0%} of those that pass are "
        "expected to be chance, if the notion of chance is right"
    ).replace("%", " %")
    return PatternSearch(method=method, kinds=tuple(_kind(found, name, unit) for name in PATTERNS))


def latent_patterns(found: DictionaryPatterns) -> dict[int, tuple[LatentPattern, ...]]:
    """The tests of every latent, in the order of PATTERNS."""
    return {
        latent: tuple(_test(name, tests[name]) for name in PATTERNS) for latent, tests in sorted(found.tests.items())
    }


def _kind(found: DictionaryPatterns, name: str, unit: str) -> PatternKind:
    return PatternKind(
        name=name,
        meaning=MEANINGS[name].replace(TOKEN, unit),
        statistic=STATISTICS[name].replace(TOKEN, unit),
        chance=CHANCE[name].replace(TOKEN, unit),
        n_shown=found.counts()[name],
        n_tested=found.n_tested()[name],
        controls=tuple(
            PatternControl(
                name=each.name.replace(TOKEN, unit),
                n_shown=each.shown,
                n_tested=each.tested,
                is_own=each.is_own,
                is_exceeded=is_exceeded(each, found, name),
            )
            for each in controls_of(found, name)
        ),
        best=tuple(found.best(name, BEST)),
    )


def _test(name: str, test: PatternTest) -> LatentPattern:
    return LatentPattern(
        name=name,
        statistic=_known(test.statistic),
        p_value=_known(test.corrected),
        shown=test.shown,
        tokens=test.tokens[:MOST_TOKENS] if test.statistic == test.statistic else (),
    )


def _known(number: float) -> float | None:
    return round(number, 5) if number == number else None
