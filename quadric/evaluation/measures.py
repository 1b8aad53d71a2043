"""Measures of an autoencoder on held-out tokens, accumulated over batches."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.autoencoders import Autoencoder
from quadric.autoencoders.objective import density_from_norms, density_norms

DENSE = 0.5
"""A latent is dense if its Hoyer density exceeds this; Gaussian noise has 0.8."""
DEAD = 0.01
"""A latent is dead if its largest |z − b| stays below this share of the median latent's."""
RESAMPLES = 1000
COVERAGE = 0.95


class Interval(NamedTuple):
    """A mean with its bootstrap interval over sequences."""

    mean: float
    low: float
    high: float


class PositionError(NamedTuple):
    """Mean error of the tokens at a range of positions in their sequence."""

    first: int
    last: int
    error: float
    n_tokens: int


class Measures(NamedTuple):
    """Measures that need only activations."""

    n_tokens: int
    error: Interval
    density: float
    """Mean over latents of the Hoyer density over all tokens."""
    dense_share: float
    """Share of dense latents. Dead latents do not count, because their density is meaningless."""
    dead_share: float
    by_position: list[PositionError]


class ErrorAccumulator:
    """Accumulates errors and latent statistics of one autoencoder over batches of tokens."""

    def __init__(self, autoencoder: Autoencoder) -> None:
        self.autoencoder = autoencoder
        self.n_tokens = 0
        self.l1 = self.l2_squared = self.largest = torch.zeros(())
        self.errors: list[Tensor] = []
        self.sequences: list[Tensor] = []
        self.positions: list[Tensor] = []

    @torch.no_grad()
    def add(self, tokens: Float[Tensor, "n d"], sequences: Int[Tensor, " n"], positions: Int[Tensor, " n"]) -> None:
        """Add one batch."""
        autoencoder = self.autoencoder
        unit = autoencoder.prepare(tokens)
        latents = autoencoder.encode_prepared(unit)
        offset = autoencoder.density_offset()
        l1, l2_squared = density_norms(latents, offset)
        self.l1, self.l2_squared = self.l1 + l1.double(), self.l2_squared + l2_squared.double()
        reach = (latents if offset is None else latents - offset).abs().amax(0)
        self.largest = torch.maximum(self.largest.to(reach), reach)
        self.errors.append(autoencoder.errors_of(unit, latents).product_space.double().cpu())
        self.sequences.append(sequences.cpu())
        self.positions.append(positions.cpu())
        self.n_tokens += len(tokens)

    def measures(self) -> Measures:
        """Measures over all batches so far."""
        if not self.n_tokens:
            raise ValueError("there are no held-out tokens to measure on; use more text or a larger held_out_fraction")
        errors, positions = torch.cat(self.errors), torch.cat(self.positions)
        density = density_from_norms(self.l1, self.l2_squared, self.n_tokens)
        alive = self.largest[self.largest > 0]
        limit = DEAD * alive.median() if len(alive) else torch.ones(())
        dead = self.largest < limit
        return Measures(
            n_tokens=self.n_tokens,
            error=bootstrap_interval(errors, torch.cat(self.sequences)),
            density=density.mean().item(),
            dense_share=((density > DENSE) & ~dead).double().mean().item(),
            dead_share=dead.double().mean().item(),
            by_position=error_by_position(errors, positions),
        )


def bootstrap_interval(errors: Float[Tensor, " n"], sequences: Int[Tensor, " n"], seed: int = 0) -> Interval:
    """Mean error and its 95 % bootstrap interval. Resamples whole sequences, because their tokens are correlated."""
    owner: Tensor = torch.unique(sequences, return_inverse=True)[1]
    n = int(owner.max()) + 1
    sums = torch.zeros(n, dtype=torch.float64).index_add_(0, owner, errors.double())
    counts = torch.bincount(owner, minlength=n).double()
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(n, (RESAMPLES, n), generator=generator)
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    tail = (1 - COVERAGE) / 2
    low, high = means.quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return Interval(errors.double().mean().item(), low, high)


def error_by_position(errors: Float[Tensor, " n"], positions: Int[Tensor, " n"]) -> list[PositionError]:
    """Mean errors at positions 0, 1, 2–3, 4–7 …; bins are narrow at the start, where the error varies most."""
    found = []
    first, last = 0, 0
    while first <= int(positions.max()):
        inside = (positions >= first) & (positions <= last)
        if inside.any():
            found.append(PositionError(first, last, errors[inside].mean().item(), int(inside.sum())))
        first, last = last + 1, 2 * last + 1
    return found
