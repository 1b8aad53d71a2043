"""How often the tests for patterns pass where there is nothing to find, or nothing that was learned."""

from typing import NamedTuple

from quadric.evidence.patterns.record import CLUSTER, CONE, INTERPOLATION, SUBSET, DictionaryPatterns

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


class Control(NamedTuple):
    """How often a pattern is found where it should not be."""

    name: str
    shown: int
    tested: int
    is_own: bool
    """Whether it was made with this dictionary; else with the demo's."""


def controls_of(found: DictionaryPatterns, pattern: str) -> list[Control]:
    """The controls of a pattern: those of this dictionary, then those measured once on the demo's.

    Args:
        found: The patterns of a dictionary.
        pattern: One of `PATTERNS`.

    Returns:
        The controls in which at least one latent could be tested.

    Example:
        >>> from quadric.evidence import find_patterns
        >>> found = find_patterns(evidence, geometry.dictionary_geometry(ae), latents=range(6))
        >>> [each.name for each in controls_of(found, "cone")][:2]
        ['structureless tokens with heavy tails', 'the same spectra in random directions']
    """
    own = [Control(HEAVY, found.n_heavy_tailed_cones, found.n_tested()[CONE], True)] if pattern == CONE else []
    measured = [Control(name, *counts, False) for name, counts in MEASURED[pattern].items()]
    return [each for each in own + measured if each.tested]


def is_exceeded(control: Control, found: DictionaryPatterns, pattern: str) -> bool:
    """Whether a dictionary shows a pattern more often than a control does; if not, its examples prove little.

    Args:
        control: One of the controls of the pattern.
        found: The patterns of the dictionary.
        pattern: One of `PATTERNS`.

    Returns:
        Whether the share of latents that show it is larger, by Fisher's exact test at 5 %.

    Example:
        >>> from quadric.evidence import find_patterns
        >>> found = find_patterns(evidence, geometry.dictionary_geometry(ae), latents=range(6))
        >>> as_often = [each.name for each in controls_of(found, "cone") if not is_exceeded(each, found, "cone")]
    """
    from scipy.stats import fisher_exact  # imported here: the import takes longer than most of what imports this

    shown, tested = found.counts()[pattern], found.n_tested()[pattern]
    table = [[shown, tested - shown], [control.shown, control.tested - control.shown]]
    return bool(fisher_exact(table, alternative="greater").pvalue <= LEVEL)
