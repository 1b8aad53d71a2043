"""A weighted draw of tokens for every latent at once, without replacement, in one pass.

Token t has weight w_t = (|z_t| + ε)⁴ and the key E_t / w_t with E_t a standard exponential variable; the m tokens of
smallest key are the draw. The first of them is token t with probability w_t / Σw, the next likewise among the rest,
and so on (Efraimidis and Spirakis, 2006). A key depends on the seed, the latent and the token alone, so the draw of a
union is the smallest keys of the draws: parts can be read in any order, in any batches, and on any machine.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from quadric.evidence.projection import places_within, project
from quadric.evidence.record import MISSING
from quadric.evidence.uniforms import (
    TokenCounters,
    exponentials,
    latent_counters,
    lower_bounds,
    pair_hashes,
)

Array = np.ndarray

ROUNDING = np.float32(1 + 1e-5)
"""A candidate is told in float32, with room for its rounding; its key is float64."""


class Block(NamedTuple):
    """Some latents on one batch of tokens."""

    latents: slice
    values: Float32[Array, "b n"]
    """z of the unit-norm tokens."""
    places: Int64[Array, " n"]
    """What tells tokens apart, whatever the batch."""
    tokens: Tensor
    """The unit-norm tokens (n, d)."""
    axes: Tensor
    """Of these latents (b, d, a)."""


class _Candidates(NamedTuple):
    latents: Int64[Array, " c"]
    tokens: Int64[Array, " c"]
    keys: Float64[Array, " c"]


class Reservoir:
    """The draw of every latent so far, in no particular order; a key of infinity marks a free place."""

    def __init__(self, n_latents: int, n_points: int, n_axes: int, epsilon: float, seed: int) -> None:
        self.keys = np.full((n_latents, n_points), np.inf)
        self.places = np.full((n_latents, n_points), MISSING, dtype=np.int64)
        self.values = np.zeros((n_latents, n_points), dtype=np.float32)
        self.coordinates = np.zeros((n_latents, n_points, n_axes), dtype=np.float32)
        self.thresholds = np.full(n_latents, np.inf)
        self.counters = latent_counters(seed, n_latents)
        self.epsilon = epsilon

    def update(self, block: Block, counters: TokenCounters) -> None:
        """Show some latents a batch."""
        found = self._candidates(block, counters)
        if not len(found.keys):
            return
        entering, evicted = _exchange(self.keys[block.latents], found)
        latents, tokens = found.latents[entering], found.tokens[entering]
        target = (evicted[0] + block.latents.start, evicted[1])
        self.keys[target] = found.keys[entering]
        self.places[target] = block.places[tokens]
        self.values[target] = block.values[latents, tokens]
        self.coordinates[target] = project(block.tokens, block.axes, latents, tokens)
        self.thresholds[block.latents] = self.keys[block.latents].max(1)

    def absorb(self, other: "Reservoir") -> None:
        """Make this the draw from both parts."""
        for latent in range(len(self.keys)):
            keys = np.concatenate([self.keys[latent], other.keys[latent]])
            kept = np.argpartition(keys, self.keys.shape[1] - 1)[: self.keys.shape[1]]
            self.keys[latent] = keys[kept]
            for name in ("places", "values", "coordinates"):
                mine, theirs = getattr(self, name), getattr(other, name)
                mine[latent] = np.concatenate([mine[latent], theirs[latent]])[kept]
        self.thresholds = self.keys.max(1)

    def _candidates(self, block: Block, counters: TokenCounters) -> _Candidates:
        """Tokens whose key may be below the largest one kept: E ≥ u, so u ≤ w · threshold is necessary, and cheap."""
        hashes = pair_hashes(self.counters[block.latents], counters)
        weights = _weights(block.values, np.float32(self.epsilon))
        with np.errstate(over="ignore"):  # beyond float32, a threshold is as good as infinite
            limits = self.thresholds[block.latents].astype(np.float32) * ROUNDING
            latents, tokens = np.nonzero(lower_bounds(hashes) <= weights * limits[:, None])
        exact = _weights(block.values[latents, tokens].astype(np.float64), self.epsilon)
        keys = exponentials(hashes[latents, tokens]) / exact
        below = keys < self.thresholds[block.latents][latents]
        return _Candidates(latents[below], tokens[below], keys[below])


def _weights(values: Array, epsilon: float | np.float32) -> Array:
    weights = np.abs(values)
    weights += epsilon
    np.square(weights, out=weights)
    return np.asarray(np.square(weights, out=weights))


def _exchange(kept: Float64[Array, "b m"], found: _Candidates) -> tuple[Int64[Array, " e"], tuple[Array, Array]]:
    """Which candidates enter, and the places (row, column) that they take."""
    counts = np.bincount(found.latents, minlength=len(kept))
    within = places_within(counts)
    size = kept.shape[1]
    keys = np.full((len(kept), size + counts.max()), np.inf)
    keys[:, :size] = kept
    keys[found.latents, size + within] = found.keys
    smallest = np.argpartition(keys, size - 1, axis=1)[:, :size]
    chosen: Bool[Array, "b mc"] = np.zeros(keys.shape, dtype=bool)
    np.put_along_axis(chosen, smallest, True, axis=1)
    candidates = np.full((len(kept), counts.max()), -1, dtype=np.int64)
    candidates[found.latents, within] = np.arange(len(found.keys))
    # In every row as many leave as enter, and both lists go row by row: they pair up.
    rows, columns = np.nonzero(~chosen[:, :size])
    entering = candidates[chosen[:, size:]]
    real = entering >= 0  # one free place may have been exchanged for another
    return entering[real], (rows[real], columns[real])
