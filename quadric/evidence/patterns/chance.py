"""How often a statistic is as large by chance, and how many of many tests can be believed."""

import numpy as np
from jaxtyping import Bool, Float

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


def discoveries(p: Float[Array, " n"], rate: float) -> Bool[Array, " n"]:
    """Tests that pass so that a share of at most `rate` of them is expected to be false (Benjamini and Hochberg, 1995).

    Args:
        p: One p-value per test; NaN where there was nothing to test, which is no test.
        rate: The share.

    Returns:
        Which tests pass.
    """
    tested = np.flatnonzero(~np.isnan(p))
    ordered = np.sort(p[tested])
    below = np.flatnonzero(ordered <= rate * np.arange(1, len(tested) + 1) / max(1, len(tested)))
    limit = ordered[below[-1]] if len(below) else -1.0
    return np.asarray(np.nan_to_num(p, nan=np.inf) <= limit)
