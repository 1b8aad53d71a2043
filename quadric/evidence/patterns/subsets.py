"""Subset: one token string on which a latent fires with both signs, and whose neighbours tell which sign.

For every token that fires on both sides of rest in enough documents, the statistic is the adjusted mutual information
between the sign and a neighbouring token,

    gain = (I − E I) / (H(sign) − E I),

with the expectation over permutations of the signs: 1 if the neighbour decides the sign, 0 by chance. The larger of the
gains from the token before and from the token after counts. Every document gives one point, so that a phrase that a
document repeats is not counted as many. The p-value is the share of permutations with a gain as large, times the number
of tokens tested.

An activation knows its context, so a form that nothing learned also fires with both signs for a reason. Whether a
latent separates senses better than that can be seen from the same count on forms with random directions.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from quadric.evidence.patterns.chance import p_values

Array = np.ndarray

FEWEST_DOCUMENTS = 10
"""Documents of a token on each side."""
PERMUTATIONS = 999
SMALLEST_ROOM = 1e-6
"""Bits that must be left to explain beyond chance; below, a gain would be rounding."""
SMALLEST_GAIN = 0.1
"""Adjusted gain below which neighbours hardly tell the sign, however significant."""


class Firing(NamedTuple):
    """Tokens on which a latent fires, strongest first."""

    tokens: Int64[Array, " m"]
    positive: Bool[Array, " m"]
    documents: Int64[Array, " m"]
    before: Int64[Array, " m"]
    """The token before, −1 at the beginning of a sequence."""
    after: Int64[Array, " m"]


class Subset(NamedTuple):
    """The token whose neighbours tell most about the sign."""

    gain: float
    """Adjusted mutual information as a share of the entropy of the sign; NaN if no token fires on both sides."""
    p_value: float
    token: int | None


def subset(firing: Firing, generator: np.random.Generator) -> Subset:
    """Test whether a token's context decides the sign with which it fires.

    Args:
        firing: Tokens on which the latent fires, with documents and neighbours.
        generator: Draws the permutations.

    Returns:
        The token with the smallest p-value, the largest gain first among equals.
    """
    found = [separation(part, generator) for part in two_sided(firing)]
    if not found:
        return Subset(float("nan"), float("nan"), None)
    best = min(found, key=lambda each: (each.p_value, -each.gain))
    return best._replace(p_value=min(1.0, best.p_value * len(found)))


def two_sided(firing: Firing) -> list[Firing]:
    """The tokens that fire on both sides in enough documents; one point per document, its strongest."""
    parts = []
    for token in np.unique(firing.tokens):
        rows = np.flatnonzero(firing.tokens == token)
        rows = rows[np.unique(firing.documents[rows], return_index=True)[1]]
        n_positive = int(firing.positive[rows].sum())
        if min(n_positive, len(rows) - n_positive) >= FEWEST_DOCUMENTS:
            parts.append(Firing(*(column[rows] for column in firing)))
    return parts


def separation(part: Firing, generator: np.random.Generator) -> Subset:
    """How well the neighbours of one token tell its sign."""
    shuffled = generator.permuted(np.tile(part.positive, (PERMUTATIONS, 1)), axis=1)
    signs = np.vstack([part.positive, shuffled])
    gains = np.maximum(*(adjusted_gains(signs, neighbours) for neighbours in (part.before, part.after)))
    return Subset(float(gains[0]), float(p_values(gains[:1], gains[1:])[0]), int(part.tokens[0]))


def adjusted_gains(signs: Bool[Array, "s m"], neighbours: Int64[Array, " m"]) -> Float64[Array, " s"]:
    """Adjusted mutual information of each row of signs with the neighbours; all rows but the first are permutations."""
    kinds = np.unique(neighbours, return_inverse=True)[1]
    table = np.eye(int(kinds.max()) + 1)[kinds]
    positive, sizes = signs.astype(np.float64) @ table, table.sum(0)
    entropy = float(_binary_entropy(signs[:1].mean(1))[0])
    information = entropy - (_binary_entropy(positive / sizes) * sizes).sum(1) / len(neighbours)
    usual = information[1:].mean()
    if entropy - usual < SMALLEST_ROOM:  # every neighbour occurs once: any signs fit
        return np.zeros(len(signs))
    return np.asarray((information - usual) / (entropy - usual))


def _binary_entropy(share: Float64[Array, "..."]) -> Float64[Array, "..."]:
    inside = np.clip(share, 1e-300, 1 - 1e-16)
    return np.asarray(-inside * np.log2(inside) - (1 - inside) * np.log1p(-inside) / np.log(2))
