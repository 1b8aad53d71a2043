"""The strongest tokens of each sign of z − rest for every latent, no two with the same text around them.

Of all tokens with the same window (the token ids from `window` before to `window` after), only the one with the largest
|z| counts, and the largest of those are kept. The result depends only on the set of tokens, so parts can be read in any
order.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt64

from quadric.evidence.record import MISSING
from quadric.evidence.reservoir import Block, places_within, project

Array = np.ndarray

AT_ONCE = 64
"""Candidates per latent and batch that are compared first; nearly always enough to find different windows."""
SIGNS = (np.float32(1), np.float32(-1))


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

    def absorb(self, other: "StrongestContexts") -> None:
        """Make these the lists of both parts."""
        n_contexts = self.strengths.shape[2]
        for sign in range(2):
            mine, theirs = self._kept(slice(None), sign), other._kept(slice(None), sign)
            theirs = theirs._replace(tokens=theirs.tokens - n_contexts)
            coordinates = np.concatenate([self.coordinates[:, sign], other.coordinates[:, sign]], axis=1)
            best = _strongest_distinct(mine.beside(theirs), n_contexts)
            self._store(np.arange(len(self.places)), sign, best)
            self.coordinates[:, sign] = np.take_along_axis(coordinates, (-1 - best.tokens)[..., None], axis=1)

    def _enter(
        self, block: Block, sign: int, rows: Int64[Array, " r"], strengths: Float32[Array, "r n"], windows: Array
    ) -> None:
        latents = rows + block.latents.start
        kept = self._kept(latents, sign)
        best = _strongest_distinct(
            kept.beside(_leading(strengths, block.places, windows, AT_ONCE)), kept.places.shape[1]
        )
        for row in _undecided(strengths, best):
            everything = _leading(strengths[row : row + 1], block.places, windows, len(block.places))
            alone = _strongest_distinct(
                _Ranked(*(c[row : row + 1] for c in kept)).beside(everything), kept.places.shape[1]
            )
            for column, own in zip(best, alone, strict=True):
                column[row] = own[0]
        before = self.coordinates[latents, sign]
        coordinates = np.take_along_axis(before, np.clip(-1 - best.tokens, 0, None)[..., None], axis=1)
        fresh = np.nonzero(best.tokens >= 0)
        coordinates[fresh] = project(block.tokens, block.axes[rows], fresh[0], best.tokens[fresh])
        self._store(latents, sign, best)
        self.coordinates[latents, sign] = coordinates

    def _kept(self, latents: slice | Int64[Array, " r"], sign: int) -> _Ranked:
        places = self.places[latents, sign]
        tokens = np.broadcast_to(-1 - np.arange(places.shape[1]), places.shape)
        return _Ranked(self.strengths[latents, sign], places, self.windows[latents, sign], tokens)

    def _store(self, latents: Int64[Array, " r"], sign: int, best: _Ranked) -> None:
        self.strengths[latents, sign] = best.strengths
        self.places[latents, sign] = np.where(best.strengths > 0, best.places, MISSING)
        self.windows[latents, sign] = best.windows


def _leading(
    strengths: Float32[Array, "r n"], places: Int64[Array, " n"], windows: UInt64[Array, " n"], count: int
) -> _Ranked:
    """The strongest candidates of every row, at most `count`, in no particular order."""
    counts = (strengths > 0).sum(1)
    widest = int(counts.max())
    if widest > count:
        chosen = np.argpartition(-strengths, count - 1, axis=1)[:, :count]
        found = np.take_along_axis(strengths, chosen, axis=1)
    else:
        rows, columns = np.nonzero(strengths)
        chosen = np.zeros((len(strengths), widest), dtype=np.int64)
        found = np.zeros(chosen.shape, dtype=np.float32)
        within = places_within(counts)
        chosen[rows, within], found[rows, within] = columns, strengths[rows, columns]
    return _Ranked(found, places[chosen], windows[chosen], chosen)


def _strongest_distinct(candidates: _Ranked, count: int) -> _Ranked:
    """The strongest of each window, and of those the strongest; ties go to the one that was read first."""
    ranked = candidates.take(np.lexsort((candidates.places, -candidates.strengths), axis=1))
    same = ranked.windows[:, :, None] == ranked.windows[:, None, :]
    earlier = np.tri(same.shape[1], k=-1, dtype=bool)
    repeated: Bool[Array, "r c"] = (same & earlier & (ranked.strengths > 0)[:, None, :]).any(axis=2)
    usable = ~repeated & (ranked.strengths > 0)
    best = ranked.take(np.argsort(~usable, axis=1, kind="stable")[:, :count])
    beyond = np.arange(count) >= usable.sum(1)[:, None]
    best.strengths[beyond] = 0
    best.windows[beyond] = 0
    best.tokens[beyond] = -1
    return best


def _undecided(strengths: Float32[Array, "r n"], best: _Ranked) -> Int64[Array, " u"]:
    """Rows in which a candidate beyond the first AT_ONCE could still be among the best."""
    crowded = np.flatnonzero((strengths > 0).sum(1) > AT_ONCE)
    if not len(crowded):
        return crowded
    beyond = -np.partition(-strengths[crowded], AT_ONCE, axis=1)[:, AT_ONCE]
    return np.asarray(crowded[beyond >= best.strengths[crowded, -1]])
