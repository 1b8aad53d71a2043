"""The tokens that one pass keeps for every latent: a weighted draw, and the strongest of each sign.

With z the deviation from rest, token t has weight w_t = (|z_t| + ε)⁴ and the key E_t / w_t with E_t a standard
exponential variable; the m tokens with the smallest keys are the draw, without replacement. The first of them is token
t with probability w_t / Σw, the next is drawn in the same way from the others, and so on (Efraimidis and Spirakis,
2006). A key depends only on the seed, the latent and the token, so the draw of a union is the smallest keys of the
draws: tokens can be read in any order and in any batches.

The strongest tokens have different text around them: of all tokens with the same window (the token ids from `window`
before to `window` after), only the one with the largest |z| counts. They, too, depend only on the set of tokens.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64, UInt32, UInt64
from torch import Tensor

from quadric.evidence.places import splitmix
from quadric.evidence.record import MISSING

Array = np.ndarray

TWO_TO_MINUS_32 = 2.0**-32
CONTROL_AXES = 3
SIGNS = (np.float32(1), np.float32(-1))
DENSE_SHARE = 0.25
"""Share of all (latent, token) pairs above which projecting every token costs less than gathering the chosen ones."""
ROUNDING = np.float32(1 + 1e-5)
"""Candidates are found in float32, with a margin for its rounding; their keys are float64."""


class TokenCounters(NamedTuple):
    """Two independent hashes of every token, so that tokens that share one do not share their random numbers."""

    first: UInt32[Array, " n"]
    second: UInt32[Array, " n"]


def token_counters(seed: int, tokens: Int64[Array, " n"]) -> TokenCounters:
    """Hashes of tokens, which are given by their places."""
    mixed = splitmix(tokens.view(np.uint64) ^ splitmix(_as_unsigned(2 * seed)))
    return TokenCounters((mixed >> np.uint64(32)).astype(np.uint32), mixed.astype(np.uint32))


def latent_counters(seed: int, n_latents: int) -> UInt32[Array, " k"]:
    """Hashes of latents."""
    return splitmix(np.arange(n_latents, dtype=np.uint64) ^ splitmix(_as_unsigned(2 * seed + 1))).astype(np.uint32)


def pair_hashes(latents: UInt32[Array, " b"], tokens: TokenCounters) -> UInt32[Array, "b n"]:
    """A uniform 32-bit number for every pair of a latent and a token, which depends on nothing else.

    A token and a latent are each hashed once; a number for every pair of them takes two 32-bit multiplications. The
    numbers of one latent's tokens, and those of different latents, are independent for all practical purposes.
    """
    mixed = latents[:, None] ^ tokens.first
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= tokens.second
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return np.asarray(mixed)


def exponentials(hashes: UInt32[Array, " c"]) -> Float64[Array, " c"]:
    """Standard exponential variables −log(1 − u), with u strictly between 0 and 1."""
    return np.asarray(-np.log1p(-(hashes + 0.5) * TWO_TO_MINUS_32))


def lower_bounds(hashes: UInt32[Array, "b n"]) -> Float32[Array, "b n"]:
    """u, which exceeds its exponential −log(1 − u) by rounding at most and is far cheaper."""
    return hashes.astype(np.float32) * np.float32(TWO_TO_MINUS_32)


def _as_unsigned(number: int) -> UInt64[Array, ""]:
    return np.asarray(number % 2**64, dtype=np.uint64)


class Block(NamedTuple):
    """Some latents on one batch of tokens."""

    latents: slice
    values: Float32[Array, "b n"]
    """Deviations sign·z − rest."""
    places: Int64[Array, " n"]
    """Identifies each token, whatever the batch."""
    tokens: Tensor
    """v, the unit tokens about the centre (n, d)."""
    axes: Tensor
    """Axes of these latents (b, d, a)."""


class _Candidates(NamedTuple):
    latents: Int64[Array, " c"]
    tokens: Int64[Array, " c"]
    keys: Float64[Array, " c"]


class Reservoir:
    """The draw of every latent so far, in no particular order; a key of infinity marks a free slot."""

    def __init__(self, n_latents: int, n_points: int, n_axes: int, epsilon: float, seed: int) -> None:
        self.keys = np.full((n_latents, n_points), np.inf)
        self.places = np.full((n_latents, n_points), MISSING, dtype=np.int64)
        self.values = np.zeros((n_latents, n_points), dtype=np.float32)
        self.coordinates = np.zeros((n_latents, n_points, n_axes), dtype=np.float32)
        self.thresholds = np.full(n_latents, np.inf)
        self.counters = latent_counters(seed, n_latents)
        self.epsilon = epsilon

    def update(self, block: Block, counters: TokenCounters) -> None:
        """Add a batch to the draws of some latents."""
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

    def _candidates(self, block: Block, counters: TokenCounters) -> _Candidates:
        """Tokens whose key is below the largest one kept; since E ≥ u, the cheap test u ≤ w · threshold comes first."""
        hashes = pair_hashes(self.counters[block.latents], counters)
        weights = _weights(block.values, np.float32(self.epsilon))
        with np.errstate(over="ignore"):  # a threshold beyond float32 is as good as infinite
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
    """Which candidates enter the draw, and the slots (row, column) that they take."""
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
    # In every row as many leave as enter, and both lists are ordered by row, so they pair up.
    rows, columns = np.nonzero(~chosen[:, :size])
    entering = candidates[chosen[:, size:]]
    real = entering >= 0  # a free slot may have been exchanged for another
    return entering[real], (rows[real], columns[real])


class _Ranked(NamedTuple):
    """Candidates of some latents side by side; strength 0 marks an empty slot."""

    strengths: Float32[Array, "r c"]
    places: Int64[Array, "r c"]
    windows: UInt64[Array, "r c"]
    tokens: Int64[Array, "r c"]
    """Row of the batch, or −1 − the index in the list where the candidate was kept before."""

    def take(self, order: Int64[Array, "r q"]) -> "_Ranked":
        return _Ranked(*(np.take_along_axis(column, order, axis=1) for column in self))

    def beside(self, other: "_Ranked") -> "_Ranked":
        return _Ranked(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


class StrongestContexts:
    """The lists so far, strongest first; the second axis is the sign."""

    def __init__(self, n_latents: int, n_contexts: int, n_axes: int) -> None:
        shape = (n_latents, 2, n_contexts)
        self.strengths = np.zeros(shape, dtype=np.float32)
        self.places = np.full(shape, MISSING, dtype=np.int64)
        self.windows = np.zeros(shape, dtype=np.uint64)
        self.coordinates = np.zeros((*shape, n_axes), dtype=np.float32)

    def update(self, block: Block, windows: UInt64[Array, " n"]) -> None:
        """Add a batch to the lists of some latents."""
        for sign, factor in enumerate(SIGNS):
            strengths = block.values * factor
            weakest = self.strengths[block.latents, sign, -1]
            wanted: Bool[Array, "b n"] = (strengths >= weakest[:, None]) & (strengths > 0)
            rows = np.flatnonzero(wanted.any(axis=1))
            if len(rows):
                self._enter(block, sign, rows, np.where(wanted[rows], strengths[rows], 0), windows)

    def _enter(
        self, block: Block, sign: int, rows: Int64[Array, " r"], strengths: Float32[Array, "r n"], windows: Array
    ) -> None:
        latents = rows + block.latents.start
        candidates = self._kept(latents, sign).beside(_positive(strengths, block.places, windows))
        best = _strongest_distinct(candidates, self.places.shape[2])
        before = self.coordinates[latents, sign]
        coordinates = np.take_along_axis(before, np.clip(-1 - best.tokens, 0, None)[..., None], axis=1)
        fresh = np.nonzero(best.tokens >= 0)
        coordinates[fresh] = project(block.tokens, block.axes[rows], fresh[0], best.tokens[fresh])
        self._store(latents, sign, best)
        self.coordinates[latents, sign] = coordinates

    def _kept(self, latents: Int64[Array, " r"], sign: int) -> _Ranked:
        places = self.places[latents, sign]
        tokens = np.broadcast_to(-1 - np.arange(places.shape[1]), places.shape)
        return _Ranked(self.strengths[latents, sign], places, self.windows[latents, sign], tokens)

    def _store(self, latents: Int64[Array, " r"], sign: int, best: _Ranked) -> None:
        self.strengths[latents, sign] = best.strengths
        self.places[latents, sign] = np.where(best.strengths > 0, best.places, MISSING)
        self.windows[latents, sign] = best.windows


def _positive(strengths: Float32[Array, "r n"], places: Int64[Array, " n"], windows: UInt64[Array, " n"]) -> _Ranked:
    """The tokens of every row with a strength, in order."""
    rows, columns = np.nonzero(strengths)
    counts = (strengths > 0).sum(1)
    within = places_within(counts)
    chosen = np.zeros((len(strengths), int(counts.max())), dtype=np.int64)
    kept = np.zeros(chosen.shape, dtype=np.float32)
    chosen[rows, within], kept[rows, within] = columns, strengths[rows, columns]
    return _Ranked(kept, places[chosen], windows[chosen], chosen)


def _strongest_distinct(candidates: _Ranked, count: int) -> _Ranked:
    """The strongest of each window, and of those the strongest; ties go to the one that was read first."""
    ranked = candidates.take(np.lexsort((candidates.places, -candidates.strengths), axis=1))
    by_window = np.argsort(ranked.windows, axis=1, kind="stable")
    windows = np.take_along_axis(ranked.windows, by_window, axis=1)
    is_first: Bool[Array, "r c"] = np.ones(windows.shape, dtype=bool)
    np.put_along_axis(is_first, by_window[:, 1:], windows[:, 1:] != windows[:, :-1], axis=1)
    usable = is_first & (ranked.strengths > 0)
    best = ranked.take(np.argsort(~usable, axis=1, kind="stable")[:, :count])
    beyond = np.arange(count) >= usable.sum(1)[:, None]
    best.strengths[beyond] = 0
    best.windows[beyond] = 0
    best.tokens[beyond] = -1
    return best


def control_frame(d_model: int, seed: int) -> Float[Tensor, "d c"]:
    """Three random orthonormal directions; in a narrower model fewer, padded with zeros."""
    generator = torch.Generator().manual_seed(seed)
    frame = torch.linalg.qr(torch.randn(d_model, min(CONTROL_AXES, d_model), generator=generator)).Q
    return torch.nn.functional.pad(frame, (0, CONTROL_AXES - frame.shape[1]))


def project(
    tokens: Float[Tensor, "n d"],
    axes: Float[Tensor, "b d a"],
    latents: Int64[Array, " c"],
    chosen: Int64[Array, " c"],
) -> Float32[Array, "c a"]:
    """v·axis of chosen pairs of a latent (a row of `axes`, in ascending order) and a token."""
    if len(latents) >= DENSE_SHARE * len(axes) * len(tokens):
        every = torch.einsum("nd,bda->bna", tokens, axes)
        return np.asarray(every[latents, chosen].numpy())
    # One small product per latent: a batched product over all of them takes several times as long.
    ends = np.searchsorted(latents, np.arange(len(axes) + 1))
    rows = torch.from_numpy(chosen)
    projected = torch.empty(len(latents), axes.shape[2])
    for latent in np.flatnonzero(np.diff(ends)).tolist():
        own = slice(ends[latent], ends[latent + 1])
        torch.mm(tokens.index_select(0, rows[own]), axes[latent], out=projected[own])
    return np.asarray(projected.numpy())


def places_within(counts: Int64[Array, " b"]) -> Int64[Array, " c"]:
    """0, 1, … in each of consecutive groups of the given sizes."""
    starts = counts.cumsum() - counts
    return np.asarray(np.arange(counts.sum()) - starts.repeat(counts))
