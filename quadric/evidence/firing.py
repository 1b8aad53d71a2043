"""How every latent fires over a whole pass: sums, and a histogram for quantiles.

Values are those about rest, z − rest. The bins of the histogram divide every octave of |z − rest| into 16 equal parts,
so a quantile is off by at most 1/16 of its distance from rest, and less with interpolation. Counts do not depend on the
order of reading; sums do, in their last bits.
"""

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from quadric.model.objective import density_from_norms

Array = np.ndarray

PARTS_BITS = 4
LOWEST_OCTAVE, HIGHEST_OCTAVE = -26, 6
"""Of |z|: smaller values count as zero, larger ones go into the last bin."""
BINS_PER_SIGN = (HIGHEST_OCTAVE - LOWEST_OCTAVE) << PARTS_BITS
PROBABILITIES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)

_SHIFT = 23 - PARTS_BITS
_FIRST = (127 + LOWEST_OCTAVE) << PARTS_BITS
SUMS = ("l1", "l2_squared", "total", "square", "positive_square", "predicted", "predicted_square", "product")
"""Sums over tokens."""


class FiringSums:
    """Sums over all tokens so far, one entry per latent."""

    def __init__(self, n_latents: int) -> None:
        self.n_tokens = 0
        for name in SUMS:
            setattr(self, name, np.zeros(n_latents))
        self.lowest = np.full(n_latents, np.inf, dtype=np.float32)
        self.highest = np.full(n_latents, -np.inf, dtype=np.float32)
        self.histogram = np.zeros((n_latents, 2 * BINS_PER_SIGN), dtype=np.int64)

    l1: Float64[Array, " k"]
    l2_squared: Float64[Array, " k"]
    total: Float64[Array, " k"]
    square: Float64[Array, " k"]
    positive_square: Float64[Array, " k"]
    predicted: Float64[Array, " k"]
    predicted_square: Float64[Array, " k"]
    product: Float64[Array, " k"]

    def update(
        self,
        latents: slice,
        values: Float32[Array, "b n"],
        *,
        for_density: Float32[Array, "b n"],
        predicted: Float32[Array, "b n"],
    ) -> None:
        """Add a batch to the sums of some latents; the caller increases `n_tokens`, once per batch.

        `values` are z − rest, `for_density` is z of x̃ at unit norm minus its offset, `predicted` is v·l.
        """
        self.l1[latents] += np.abs(for_density).sum(1, dtype=np.float64)
        self.l2_squared[latents] += np.square(for_density).sum(1, dtype=np.float64)
        self.predicted[latents] += predicted.sum(1, dtype=np.float64)
        self.predicted_square[latents] += np.square(predicted).sum(1, dtype=np.float64)
        self.product[latents] += (values * predicted).sum(1, dtype=np.float64)
        self.total[latents] += values.sum(1, dtype=np.float64)
        squares = np.square(values)
        self.square[latents] += squares.sum(1, dtype=np.float64)
        self.positive_square[latents] += (squares * (values > 0)).sum(1, dtype=np.float64)
        self.lowest[latents] = np.minimum(self.lowest[latents], values.min(1))
        self.highest[latents] = np.maximum(self.highest[latents], values.max(1))
        self.histogram[latents] += _counts(values)

    def density(self) -> Float32[Array, " k"]:
        """The Hoyer density of z − b over all tokens; 0 for a latent that is 0 on all of them."""
        norms = torch.from_numpy(self.l1), torch.from_numpy(self.l2_squared)
        return np.asarray(density_from_norms(*norms, self.n_tokens).float().numpy())

    def curvature(self) -> Float32[Array, " k"]:
        """1 − corr²(z, v·l), the share of the variance that the best linear predictor leaves; 0 if z is constant."""
        n = max(1, self.n_tokens)
        variance = self.square / n - np.square(self.total / n)
        spread = self.predicted_square / n - np.square(self.predicted / n)
        shared = self.product / n - self.total * self.predicted / n**2
        # Below the rounding of float32 values there is no variance to explain.
        varies = variance > 1e-12 * np.maximum(self.square / n, np.finfo(np.float64).tiny)
        explained = np.square(shared) / np.where((variance > 0) & (spread > 0), variance * spread, np.inf)
        return np.asarray(np.where(varies, np.clip(1 - explained, 0, 1), 0).astype(np.float32))

    def positive_share(self) -> Float32[Array, " k"]:
        """Share of Σ(z − rest)² from z > rest; ½ if z never leaves rest."""
        silent = self.square == 0
        share = np.where(silent, 0.5, self.positive_square / np.where(silent, 1, self.square))
        return np.asarray(share.astype(np.float32))

    def mean_square(self) -> Float32[Array, " k"]:
        return (self.square / max(1, self.n_tokens)).astype(np.float32)

    def quantiles(self, probabilities: tuple[float, ...] = PROBABILITIES) -> Float32[Array, "k q"]:
        """z − rest at the given probabilities, linear inside a bin and never beyond the smallest and largest value."""
        edges = _edges()
        found = np.empty((len(self.histogram), len(probabilities)), dtype=np.float32)
        for latent, counts in enumerate(self.histogram):
            running = np.concatenate([[0], counts.cumsum()]) / max(1, self.n_tokens)
            found[latent] = _interpolated(np.asarray(probabilities), running, edges)
        found[np.abs(found) <= edges[BINS_PER_SIGN + 1]] = 0  # the bins next to zero
        return np.clip(found, self.lowest[:, None], self.highest[:, None])

    def share_beyond(self, limits: Float32[Array, " k"]) -> Float32[Array, " k"]:
        """Share of tokens with |z − rest| above a limit of each latent, linear inside a bin."""
        edges = _edges()[BINS_PER_SIGN:]
        share = np.empty(len(limits), dtype=np.float32)
        for latent, limit in enumerate(limits):
            counts = self.histogram[latent]
            both = counts[BINS_PER_SIGN:] + counts[:BINS_PER_SIGN][::-1]
            below = np.interp(limit, edges, np.concatenate([[0], both.cumsum()]))
            share[latent] = 1 - below / max(1, self.n_tokens)
        return np.clip(share, 0, 1)


def _counts(values: Float32[Array, "b n"]) -> Int64[Array, "b h"]:
    """Number of values of each row in each bin: the leading bits of a float32 are its octave and part."""
    bits = values.view(np.int32)
    bins = (bits & 0x7FFFFFFF) >> _SHIFT
    bins -= _FIRST
    np.clip(bins, 0, BINS_PER_SIGN - 1, out=bins)
    bins = np.where(bits < 0, BINS_PER_SIGN - 1 - bins, BINS_PER_SIGN + bins)
    bins += (np.arange(len(values), dtype=np.int32) * 2 * BINS_PER_SIGN)[:, None]
    counted = np.bincount(bins.ravel(), minlength=len(values) * 2 * BINS_PER_SIGN)
    return counted.reshape(len(values), 2 * BINS_PER_SIGN)


def _edges() -> Float64[Array, " h1"]:
    """The edges of all bins, ascending; the bins next to zero extend to it."""
    bits = (np.arange(BINS_PER_SIGN + 1, dtype=np.int32) + _FIRST) << _SHIFT
    positive = bits.view(np.float32).astype(np.float64)
    positive[0] = 0
    return np.concatenate([-positive[:0:-1], positive])


def _interpolated(wanted: Array, running: Array, edges: Array) -> Array:
    """Where the cumulative share reaches the wanted one; empty bins are skipped."""
    upper = np.searchsorted(running, wanted, side="left").clip(1, len(running) - 1)
    step = running[upper] - running[upper - 1]
    part = np.where(step > 0, (wanted - running[upper - 1]) / np.where(step > 0, step, 1), 1)
    return np.asarray(edges[upper - 1] + part.clip(0, 1) * (edges[upper] - edges[upper - 1]))
