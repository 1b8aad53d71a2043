"""How much of a latent's value bends: the share of its variance that no function of one direction, or of two, explains.

A straight line explains little of a threshold or of a square, though both are functions of one direction. So what is
left of a latent is measured against the best function g(w·v) that is monotone on each side of one turning point
(`quadric.evidence.turning`). Directions and functions are fitted on one half of the tokens and judged on the other:

1. tried are the latent's linear predictor, the predictor of its ranks, and the directions given, e.g. its leading axes;
2. the best of them is refined. With residual ρ and slope g', the gradient Σ⁻¹E[g'ρv] adds a direction, and a
   Gauss–Newton step is made in the span of all tried so far, kept only if the error on the fitting half falls;
3. the halves change places, and the two explained shares are averaged. A negative one counts as zero.

With two directions the function is h(g₁(w₁·v) + g₂(w₂·v)): each g turns at most once and h is monotone. That covers
every quadratic form of rank two, turned into its own axes, and thresholds and roots of one. It is not every function of
two directions: a checkerboard is left over. The shares are upper limits of what is left: another search might find a
better direction.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64, UInt64
from torch import Tensor

from quadric.evidence.calibration import RIDGE
from quadric.evidence.places import splitmix
from quadric.evidence.turning import Curve, binned, curve, rising, turns

Array = np.ndarray

SAMPLE = 20_000
"""Tokens that are read, half of them to fit and half to judge."""
REACHES = (0.5, 0.25, 0.1)
"""Over what distance slopes are taken, in standard deviations on each side, in each round of refinement: a step moves
tokens far from it only where its slope is taken from afar."""
STEPS = (1.0, 0.5, 0.2)
"""Parts of a Gauss–Newton step that are tried."""
LATENTS_AT_ONCE = 64
ROWS_AT_ONCE = 8_192
BACKFITS = 3
"""Times that each of two functions is fitted to what the other leaves."""
PAIRED = 2
"""Given directions, besides the best single one, for which a partner is looked for."""
FEWEST_TOKENS = 200
SMALLEST_VARIANCE = 1e-12
"""Of a value, relative to its mean square: below, it is constant but for rounding."""
DAMPING = 1e-2
"""Ridge of a Gauss–Newton step, relative to the mean diagonal entry of its matrix."""


class Beyond(NamedTuple):
    """What functions of one direction, or of two, leave of every latent."""

    share: Float64[Array, " k"]
    """Share of the variance on tokens not used for fitting, from 0 to 1; 0 for a constant latent."""
    directions: Float32[Array, "k c d"]
    """Unit vectors found on the first half: c = 1 or 2."""

    def __repr__(self) -> str:
        return f"Beyond({len(self.share):,} latents, median share {np.median(self.share):.3f})"


def beyond_one_direction(
    tokens: Float[Tensor, "n d"],
    values: Float[Tensor, "n k"],
    directions: Float[Tensor, "k a d"] | None = None,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Beyond:
    """The share of every latent's variance that no function of one direction explains.

    Args:
        tokens: v, the tokens about their centre.
        values: z of every latent.
        directions: Directions worth trying for each latent, such as its leading axes; zero where there are fewer.
        sample: Tokens to read, chosen by a hash of their numbers, so that neither order nor copies matter.
        seed: Of that hash.

    Returns:
        Shares and directions.

    Example:
        >>> from quadric.evidence.bending import beyond_one_direction
        >>> v = torch.randn(2_000, 8, generator=torch.Generator().manual_seed(0))
        >>> square, ball = v[:, 0].square(), v.square().sum(1)
        >>> found = beyond_one_direction(v, torch.stack([square, ball], dim=1), torch.eye(8)[:1].expand(2, 1, 8))
        >>> bool(found.share[0] < 0.05), bool(found.share[1] > 0.6)
        (True, True)
    """
    return _cross_fitted(tokens, values, directions, sample, seed, _one)


def beyond_two_directions(
    tokens: Float[Tensor, "n d"],
    values: Float[Tensor, "n k"],
    directions: Float[Tensor, "k a d"] | None = None,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Beyond:
    """The share of every latent's variance that no h(g₁(w₁·v) + g₂(w₂·v)) explains; slower, so give a few latents.

    Args:
        tokens: v, the tokens about their centre.
        values: z of every latent.
        directions: Directions worth trying for each latent, such as its leading axes; zero where there are fewer.
        sample: Tokens to read, chosen by a hash of their numbers, so that neither order nor copies matter.
        seed: Of that hash.

    Returns:
        Shares and directions.

    Example:
        >>> from quadric.evidence.bending import beyond_two_directions
        >>> v = torch.randn(2_000, 8, generator=torch.Generator().manual_seed(0))
        >>> saddle, ball = v[:, 0] * v[:, 1], v.square().sum(1)
        >>> axes = torch.stack([torch.eye(8)[0] + torch.eye(8)[1], torch.eye(8)[0] - torch.eye(8)[1]])
        >>> found = beyond_two_directions(v, torch.stack([saddle, ball], dim=1), axes.expand(2, 2, 8))
        >>> bool(found.share[0] < 0.1), bool(found.share[1] > 0.5)
        (True, True)
    """
    return _cross_fitted(tokens, values, directions, sample, seed, _two)


def rows_by_content(tokens: Float[Tensor, "n d"], seed: int = 0) -> Int64[Array, " n"]:
    """Rows in the order of a hash of their numbers: a draw that does not depend on how they were ordered.

    Args:
        tokens: Any rows.
        seed: Of the hash.

    Returns:
        Row numbers; equal rows come next to each other.
    """
    factors = splitmix(np.arange(tokens.shape[1], dtype=np.uint64) + splitmix(np.array(seed % 2**64, dtype=np.uint64)))
    hashes = [_hashes(part, factors | np.uint64(1)) for part in torch.split(tokens, ROWS_AT_ONCE)]
    return np.argsort(np.concatenate(hashes), kind="stable")


def _hashes(rows: Float[Tensor, "n d"], factors: UInt64[Array, " d"]) -> UInt64[Array, " n"]:
    bits = (rows.detach().cpu().float() + 0.0).numpy().view(np.uint32)  # + 0.0: −0 and 0 are the same number
    return splitmix((bits * factors).sum(1, dtype=np.uint64))


class _Half:
    """Some tokens, with what all latents share: their covariance."""

    def __init__(self, tokens: Tensor, values: Tensor) -> None:
        self.tokens = tokens.detach().cpu().float()
        self.values = values.detach().cpu().float()
        n, d = self.tokens.shape
        self.mean = self.tokens.mean(0)
        centred = self.tokens - self.mean
        covariance = (centred.mT @ centred).double() / n
        ridge = max(RIDGE * float(covariance.trace()) / n, 1e-12)
        self.factor = torch.linalg.cholesky(covariance + ridge * torch.eye(d, dtype=torch.float64)).float()

    def varies(self) -> Bool[Tensor, " k"]:
        """Which values are more than rounding about a constant."""
        values = self.values.double()
        return values.var(0) > SMALLEST_VARIANCE * values.square().mean(0)

    def predictors(self, targets: Float[Tensor, "n b"]) -> Float[Tensor, "b d"]:
        """Ridge regression of each target on the tokens."""
        centred = targets - targets.mean(0)
        cross = self.tokens.mT @ centred / len(targets) - self.mean[:, None] * centred.mean(0)
        return torch.cholesky_solve(cross, self.factor).mT

    def scaled(self, directions: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Directions along which tokens have unit variance; zero stays zero."""
        spread = torch.linalg.vector_norm(directions @ self.factor, dim=-1, keepdim=True)
        return torch.where(spread > 0, directions / torch.where(spread > 0, spread, 1), 0)


class _Found(NamedTuple):
    """What a search found on one half and is worth on the other."""

    explained: Float64[Array, " b"]
    directions: Float[Tensor, "b c d"]


_Search = Callable[[_Half, _Half, slice, Tensor], _Found]


def _cross_fitted(
    tokens: Tensor, values: Tensor, directions: Tensor | None, sample: int, seed: int, search: _Search
) -> Beyond:
    n, d = tokens.shape
    if n < FEWEST_TOKENS:
        raise ValueError(f"{n} tokens are too few to fit on one half and judge on the other; give {FEWEST_TOKENS}")
    k = values.shape[1]
    given = torch.zeros(k, 0, d) if directions is None else directions.detach().cpu().float()
    rows = torch.from_numpy(rows_by_content(tokens, seed)[:sample])
    first, second = (_Half(tokens[half], values[half]) for half in rows.tensor_split(2))
    parts = []
    for start in range(0, k, LATENTS_AT_ONCE):
        columns = slice(start, min(k, start + LATENTS_AT_ONCE))
        there = search(first, second, columns, given[columns])
        back = search(second, first, columns, given[columns])
        parts.append(_Found((there.explained + back.explained) / 2, there.directions))
    explained = np.concatenate([part.explained for part in parts])
    units = torch.nn.functional.normalize(torch.cat([part.directions for part in parts]), dim=-1)
    varies = (first.varies() & second.varies()).numpy()
    return Beyond(np.where(varies, 1 - explained.clip(0, 1), 0), units.numpy())


def _one(fit: _Half, judge: _Half, columns: slice, given: Float[Tensor, "b a d"]) -> _Found:
    z = fit.values[:, columns].mT.contiguous()
    best = _refined(fit, z, _starts(fit, z, given))
    positions = (best @ fit.tokens.mT).numpy()
    bins = binned(positions, z.numpy())
    found = turns(bins)
    fitted = [curve(bins, found, row) for row in range(len(z))]
    elsewhere = (best @ judge.tokens.mT).numpy()
    truth = judge.values[:, columns].mT.numpy()
    return _Found(_explained(truth, _applied(fitted, elsewhere)), best[:, None])


def _starts(fit: _Half, z: Float[Tensor, "b n"], given: Float[Tensor, "b a d"]) -> Float[Tensor, "b m d"]:
    """The directions tried first, along which tokens have unit variance."""
    linear = torch.stack([fit.predictors(z.mT), fit.predictors(_ranks(z).mT)], dim=1)
    return fit.scaled(torch.cat([linear, given], dim=1))


def _ranks(z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Share of smaller values in the row, from 0 to 1: large values count no more than others."""
    return torch.searchsorted(z.sort(dim=1).values, z) / z.shape[1]


def _refined(fit: _Half, z: Float[Tensor, "b n"], starts: Float[Tensor, "b m d"]) -> Float[Tensor, "b d"]:
    """The best direction that was found for every latent."""
    span, places = starts, starts @ fit.tokens.mT
    errors = _errors(places, z)
    best, least = _chosen(starts, errors), errors.min(1)
    for reach in REACHES:
        residuals, slopes = _residuals_and_slopes(best @ fit.tokens.mT, z, reach)
        gradients = fit.scaled(fit.predictors((residuals * slopes).mT))[:, None]
        span = torch.cat([span, gradients], dim=1)
        places = torch.cat([places, gradients @ fit.tokens.mT], dim=1)
        moves = (_gauss_newton(places, slopes, residuals)[:, None] @ span)[:, 0]
        proposals = torch.stack([best + step * moves for step in STEPS], dim=1)
        errors = _errors(proposals @ fit.tokens.mT, z)
        better = torch.from_numpy(errors.min(1) < least)
        best = torch.where(better[:, None], _chosen(proposals, errors), best)
        least = np.minimum(least, errors.min(1))
    return best


def _errors(places: Float[Tensor, "b m n"], z: Float[Tensor, "b n"]) -> Float64[Array, "b m"]:
    """Of the best function of every direction; infinite for the zero vector, which stands for a missing one."""
    b, m, n = places.shape
    repeated = z[:, None].expand(b, m, n).reshape(b * m, n).numpy()
    errors = turns(binned(places.reshape(b * m, n).numpy(), repeated)).errors.reshape(b, m)
    errors[(places == 0).all(-1).numpy()] = np.inf
    return errors


def _chosen(directions: Float[Tensor, "b m d"], errors: Float64[Array, "b m"]) -> Float[Tensor, "b d"]:
    return directions[torch.arange(len(directions)), torch.from_numpy(errors.argmin(1))]


def _residuals_and_slopes(
    places: Float[Tensor, "b n"], z: Float[Tensor, "b n"], reach: float
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"]]:
    """What the best function of each direction leaves, and its slope at every token."""
    here = places.numpy()
    bins = binned(here, z.numpy())
    found = turns(bins)
    fitted = [curve(bins, found, row) for row in range(len(z))]
    slopes = _slopes(fitted, here, reach)
    return z - torch.from_numpy(_applied(fitted, here)).float(), torch.from_numpy(slopes).float()


def _slopes(fitted: list[Curve], places: Float32[Array, "b n"], reach: float) -> Float64[Array, "b n"]:
    """Of each function at every token, over some distance on each side."""
    widths = reach * places.std(1, keepdims=True).clip(1e-12)
    return np.asarray((_applied(fitted, places + widths) - _applied(fitted, places - widths)) / (2 * widths))


def _gauss_newton(
    places: Float[Tensor, "b m n"], slopes: Float[Tensor, "b n"], residuals: Float[Tensor, "b n"]
) -> Float[Tensor, "b m"]:
    """Change of the direction, in the span, that would remove most of the residual if the function were straight."""
    moved = places * slopes[:, None]
    matrix = (moved @ moved.mT).double()
    damping = DAMPING * matrix.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-30)
    matrix = matrix + damping[:, None, None] * torch.eye(places.shape[1], dtype=torch.float64)
    change: Tensor = torch.linalg.solve(matrix, (moved @ residuals[..., None]).double())
    return change[..., 0].float()


def _explained(truth: Float32[Array, "b n"], predicted: Float64[Array, "b n"]) -> Float64[Array, " b"]:
    """R² of each row; 0 where the truth is constant."""
    total = np.square(truth - truth.mean(1, keepdims=True, dtype=np.float64)).sum(1)
    left = np.square(truth - predicted).sum(1)
    return np.asarray(1 - np.divide(left, total, out=np.ones(len(total)), where=total > 0))


class _Pairs(NamedTuple):
    """Two directions for every latent, and what is fitted along them."""

    directions: Float[Tensor, "b 2 d"]
    curves: list[tuple[Curve, Curve]]
    links: list[Curve]
    """Rising functions of the sums."""
    errors: Float64[Array, " b"]

    def places(self, tokens: Float[Tensor, "n d"]) -> Float32[Array, "b 2 n"]:
        return np.asarray((self.directions @ tokens.mT).numpy())

    def sums(self, places: Float[Array, "b 2 n"]) -> Float64[Array, "b n"]:
        """g₁ + g₂."""
        rows = zip(self.curves, places, strict=True)
        return np.stack([first(here) + second(there) for (first, second), (here, there) in rows])

    def predicted(self, tokens: Float[Tensor, "n d"]) -> Float64[Array, "b n"]:
        """h(g₁ + g₂)."""
        return _applied(self.links, self.sums(self.places(tokens)))

    def or_better(self, others: "_Pairs") -> "_Pairs":
        """Of each latent the pair with the smaller error."""
        better = others.errors < self.errors
        return _Pairs(
            torch.where(torch.from_numpy(better)[:, None, None], others.directions, self.directions),
            [new if wins else old for wins, new, old in zip(better, others.curves, self.curves, strict=True)],
            [new if wins else old for wins, new, old in zip(better, others.links, self.links, strict=True)],
            np.where(better, others.errors, self.errors),
        )


def _two(fit: _Half, judge: _Half, columns: slice, given: Float[Tensor, "b a d"]) -> _Found:
    z = fit.values[:, columns].mT.contiguous()
    starts = _starts(fit, z, given)
    first = _refined(fit, z, starts)
    span = torch.cat([starts, first[:, None]], dim=1)
    best = _completed(fit, z, first, span)
    for axis in range(min(PAIRED, given.shape[1])):
        best = best.or_better(_completed(fit, z, fit.scaled(given[:, axis]), span))
    for reach in REACHES:
        best = _moved(fit, z, best, span, reach)
    truth = judge.values[:, columns].mT.numpy()
    return _Found(_explained(truth, best.predicted(judge.tokens)), best.directions)


def _completed(
    fit: _Half, z: Float[Tensor, "b n"], first: Float[Tensor, "b d"], span: Float[Tensor, "b m d"]
) -> _Pairs:
    """A direction of every latent, with the one that explains most of what its function leaves."""
    residuals, _ = _residuals_and_slopes(first @ fit.tokens.mT, z, REACHES[-1])
    candidates = torch.cat([span, fit.scaled(fit.predictors(residuals.mT))[:, None]], dim=1)
    second = _chosen(candidates, _errors(candidates @ fit.tokens.mT, residuals))
    return _backfitted(fit, z, torch.stack([first, second], dim=1))


def _moved(fit: _Half, z: Float[Tensor, "b n"], best: _Pairs, span: Float[Tensor, "b m d"], reach: float) -> _Pairs:
    """A Gauss–Newton step of both directions in the span of those tried and of their gradients."""
    places = best.places(fit.tokens)
    residuals = z - torch.from_numpy(best.sums(places)).float()
    both = [_slopes([pair[one] for pair in best.curves], places[:, one], reach) for one in range(2)]
    slopes = torch.from_numpy(np.stack(both, axis=1)).float()
    gradients = [fit.scaled(fit.predictors((slopes[:, one] * residuals).mT)) for one in range(2)]
    wide = torch.cat([span, torch.stack(gradients, dim=1)], dim=1)
    b, m, _ = wide.shape
    moved = (wide @ fit.tokens.mT)[:, None] * slopes[:, :, None]  # latents, directions, span, tokens
    change = _gauss_newton(moved.flatten(1, 2), torch.ones_like(z), residuals).reshape(b, 2, m)
    for step in STEPS:
        best = best.or_better(_backfitted(fit, z, best.directions + step * (change @ wide)))
    return best


def _backfitted(fit: _Half, z: Float[Tensor, "b n"], directions: Float[Tensor, "b 2 d"]) -> _Pairs:
    """Functions of two directions, each fitted to what the other leaves, then a rising function of their sum."""
    places, truth = (directions @ fit.tokens.mT).numpy(), z.numpy()
    curves: list[list[Curve]] = []
    other = np.zeros_like(truth)
    for number in range(2 * BACKFITS):
        here = places[:, number % 2]
        bins = binned(here, truth - other)
        found = turns(bins)
        curves = [*curves[-1:], [curve(bins, found, row) for row in range(len(truth))]]
        other = _applied(curves[-1], here)
    totals = _applied(curves[0], places[:, 0]) + other
    bins = binned(totals, truth)
    links = [rising(bins, row) for row in range(len(truth))]
    errors = np.square(truth - _applied(links, totals)).sum(1)
    return _Pairs(directions, list(zip(*curves, strict=True)), links, errors)


def _applied(curves: list[Curve], places: Float[Array, "b n"]) -> Float64[Array, "b n"]:
    return np.stack([each(here) for each, here in zip(curves, places, strict=True)])
