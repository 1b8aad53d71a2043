"""The patterns of one latent and of a dictionary, their table, and how often tests pass where nothing was learned."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from quadric._io.results import csv_of_rows
from quadric.evidence.record import Evidence

CONE, CLUSTER, INTERPOLATION, SUBSET = "cone", "cluster", "interpolation", "subset"
PATTERNS = (CONE, CLUSTER, INTERPOLATION, SUBSET)
STATISTICS = {
    CONE: "spread along the leading ray / largest spread across it",
    CLUSTER: "stable clusters beyond the controls",
    INTERPOLATION: "spread of the middle along the path / its distance and spread across it",
    SUBSET: "share of the sign's entropy that a neighbouring token explains beyond chance",
}

MEANINGS = {
    CONE: "points lie along one ray from the centre",
    CLUSTER: "points fall into discrete groups",
    INTERPOLATION: "the cloud of one token spans the path between two others",
    SUBSET: "one token fires with both signs, and a neighbouring token tells which",
}
CHANCE = {
    CONE: "draws of Gaussian tokens with the same covariance through the same form",
    CLUSTER: "stable groups of Gaussian tokens, and of the same points on random directions",
    INTERPOLATION: "random arrangements of the clouds with the covariance of their means",
    SUBSET: "permutations of the signs, with one point per document",
}
"""With what each statistic is compared to get its p-value; clusters have none, they have to outnumber the controls."""
RANDOM, UNTRAINED = "the same spectra in random directions", "an untrained dictionary"
PERMUTED, HEAVY = "permuted tokens", "structureless tokens with heavy tails"
MEASURED: dict[str, dict[str, tuple[int, int]]] = {
    CONE: {RANDOM: (2, 512), UNTRAINED: (0, 512)},
    CLUSTER: {RANDOM: (11, 512), UNTRAINED: (52, 512), HEAVY: (2, 512)},
    INTERPOLATION: {RANDOM: (0, 184), UNTRAINED: (0, 306)},
    SUBSET: {RANDOM: (4, 6), UNTRAINED: (46, 62), PERMUTED: (0, 85)},
}
"""Latents that pass and latents tested in controls of the demo's dictionary (docs/decisions.md). They are
too slow to make for every dictionary, so these stand in for its own."""
LEVEL = 0.05
"""Level of the test by which a dictionary shows a pattern more often than a control does."""


@dataclass(frozen=True, kw_only=True)
class PatternTest:
    """Whether a latent shows a pattern."""

    statistic: float
    """See `STATISTICS`; NaN where there was nothing to test."""
    p_value: float
    """NaN where there was nothing to test, and for clusters, which are decided by controls of their own."""
    corrected: float
    """p-value after correction for the number of latents tested (Benjamini–Hochberg); NaN where `p_value` is."""
    shown: bool
    """Whether the latent counts as showing the pattern."""
    tokens: tuple[str, ...] = ()
    """The tokens that show it: those of the ray; of each cluster; end, middle, end; the token with two senses."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DictionaryPatterns:
    """The patterns of the distinct latents of a dictionary."""

    tests: dict[int, dict[str, PatternTest]]
    """By latent and pattern."""
    rate: float
    """Share of the latents that show a pattern that may be false."""
    n_heavy_tailed_cones: int
    """How many of the same latents show a cone where tokens have heavy tails and no structure: a warning, if many."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts().items())
        return f"DictionaryPatterns({len(self.tests):,} latents: {counts})"

    def counts(self) -> dict[str, int]:
        """How many latents show each pattern."""
        return {name: sum(each[name].shown for each in self.tests.values()) for name in PATTERNS}

    def n_tested(self) -> dict[str, int]:
        """How many latents could be tested for each pattern."""
        return {name: sum(each[name].statistic == each[name].statistic for each in self.tests.values())
                for name in PATTERNS}  # fmt: skip

    def best(self, pattern: str, count: int = 5) -> list[int]:
        """Latents that show the pattern, smallest p-value and then strongest statistic first."""
        found = [(latent, each[pattern]) for latent, each in self.tests.items() if each[pattern].shown]

        def rank(item: tuple[int, PatternTest]) -> tuple[float, float]:
            p = item[1].p_value if item[1].p_value == item[1].p_value else 0.0
            return p, -item[1].statistic

        return [latent for latent, _ in sorted(found, key=rank)[:count]]


def patterns_csv(found: DictionaryPatterns, evidence: Evidence) -> str:
    """One row per latent and pattern that could be tested, with the link that opens the latent in the viewer.

    Args:
        found: Result of `find_patterns`.
        evidence: The evidence that was tested; it has the labels.

    Returns:
        The text of a CSV file.

    Example:
        >>> from quadric.evidence import find_patterns, patterns_csv
        >>> found = find_patterns(evidence, geometry.dictionary_geometry(ae), latents=[3])
        >>> patterns_csv(found, evidence).splitlines()[0]
        'latent,label,pattern,shown,statistic,p_value,corrected,tokens,link'
    """
    rows: list[dict[str, Any]] = []
    for latent, tests in found.tests.items():
        for name, test in tests.items():
            if test.statistic == test.statistic:
                rows.append(
                    {
                        "latent": latent,
                        "label": evidence.labels.of(latent),
                        "pattern": name,
                        "shown": test.shown,
                        "statistic": round(test.statistic, 4),
                        "p_value": round(test.p_value, 5) if test.p_value == test.p_value else None,
                        "corrected": round(test.corrected, 5) if test.corrected == test.corrected else None,
                        "tokens": " | ".join(test.tokens),
                        "link": f"#/latent/{latent}",
                    }
                )
    return csv_of_rows(rows)


class Control(NamedTuple):
    """How often a pattern is found where it should not be."""

    name: str
    shown: int
    tested: int
    is_own: bool
    """Whether it was made with this dictionary; else with the demo's."""


def controls_of(found: DictionaryPatterns, pattern: str) -> list[Control]:
    """The controls of a pattern: those of this dictionary, then those measured once on the demo's.

    Controls in which no latent could be tested are left out.
    """
    own = [Control(HEAVY, found.n_heavy_tailed_cones, found.n_tested()[CONE], True)] if pattern == CONE else []
    measured = [Control(name, *counts, False) for name, counts in MEASURED[pattern].items()]
    return [each for each in own + measured if each.tested]


def is_exceeded(control: Control, found: DictionaryPatterns, pattern: str) -> bool:
    """Whether a dictionary shows a pattern more often than a control does; if not, its examples prove little.

    The share of latents that show it must be larger by Fisher's exact test at 5 %.
    """
    from scipy.stats import fisher_exact  # imported here: the import takes longer than most of what imports this

    shown, tested = found.counts()[pattern], found.n_tested()[pattern]
    table = [[shown, tested - shown], [control.shown, control.tested - control.shown]]
    return bool(fisher_exact(table, alternative="greater").pvalue <= LEVEL)
