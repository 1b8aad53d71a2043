"""How often a statistic is as large by chance, and how many of many tests can be believed."""

import numpy as np
from jaxtyping import Float

Array = np.ndarray


def p_values(observed: Float[Array, " n"], by_chance: Float[Array, " r"]) -> Float[Array, " n"]:
    """p = (1 + number of chance values that are at least as large) / (1 + number of chance values).

    Args:
        observed: One statistic per test; NaN where there was nothing to test.
        by_chance: The same statistic where there is nothing to find.

    Returns:
        One p-value per test, NaN where there was nothing to test.
    """
    ordered = np.sort(by_chance)
    at_least = len(ordered) - np.searchsorted(ordered, observed, side="left")
    return np.where(np.isnan(observed), np.nan, (1 + at_least) / (1 + len(ordered)))


def corrected(p: Float[Array, " n"]) -> Float[Array, " n"]:
    """p-values after correction for the number of tests (Benjamini and Hochberg, 1995).

    With p in ascending order, the i-th of m becomes the least of p_j·m/j over j ≥ i. Of the tests whose corrected value
    is at most q, a share of at most q is expected to be false.

    Args:
        p: One p-value per test; NaN where there was nothing to test, which is no test.

    Returns:
        One corrected value per test, NaN where there was nothing to test.
    """
    after = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    after[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return after
