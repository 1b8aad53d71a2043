"""How long a step in the product space takes, from what it does and how fast this machine does each kind of it.

At these sizes dense products take a third of a step. The rest moves numbers through memory: products with a sparse C,
Muon on its entries, and element-wise operations on arrays far larger than a cache. So the work is counted by kind, and
the rate of each kind is measured on small arrays of the same shapes.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from quadric.autoencoders.kernels.latents import TOKENS_AT_ONCE
from quadric.autoencoders.kernels.lifted import NUMBERS_AT_ONCE
from quadric.autoencoders.kernels.products import csr_matrix, csr_product, sampled_product
from quadric.autoencoders.mixing import Sparse, scattered_mixing
from quadric.training.cost import StepSize, step_flops
from quadric.training.optimizers import MOST_PAIRS, ROUNDS, column_pairs, orthogonalized_on_pattern

ATOMS_PER_LATENT = 16
ATOMS = 2**15
"""Atoms that rates are measured with: their activations on a block of tokens do not fit in a cache."""


class StepWork(NamedTuple):
    """What a step does, by kind; as rates, how much of it this machine does per second."""

    products: float
    """FLOPs of dense products with as many columns as forms have coordinates."""
    sparse_products: float
    """FLOPs of products with a sparse matrix, counted by its entries."""
    pair_rounds: float
    """Pairs of entries that share a column, times rounds, in SparseMuon."""
    numbers: float
    """Numbers written by operations that go through memory once."""

    def seconds(self, rates: "StepWork") -> float:
        """Time of this work at these rates."""
        return float(sum(work / rate for work, rate in zip(self, rates, strict=True)))


def lifted_work(size: StepSize) -> StepWork:
    """The work of one step in the product space, for one process."""
    flops = step_flops(size)
    pairs = size.n_entries + size.n_entries**2 // size.n_hidden if size.is_sparse else 0
    return StepWork(
        products=flops.total - flops.mixing,
        sparse_products=flops.mixing,
        pair_rounds=float(ROUNDS * pairs if pairs <= MOST_PAIRS else 0),
        numbers=float(_numbers(size)),
    )


def _numbers(size: StepSize) -> float:
    """Numbers that element-wise operations, gathers and scatters write, counted from the code."""
    n, d, k, h = size.n_tokens, size.d_model, size.n_latents, size.n_used_atoms
    activations = 4 * n * h + 2 * n * k
    density = 10 * n * k
    factors = 28 * h * d  # used rows, gradients and momentum of both
    if size.top_latents is None:
        forms = 12 * k * d * d + 11 * size.n_entries * d
        return activations + density + factors + forms + 3 * n * size.product_width
    per_latent = size.n_entries / k
    terms = n * size.top_latents * per_latent
    chosen = 6 * n * k + size.n_entries * (2 * d + 8 * per_latent)
    return activations + density + factors + chosen + 11 * terms * d + 6 * n * d * d


def measure_rates(width: int, seconds: float = 0.3) -> StepWork:
    """Work of each kind that this machine's CPU does per second.

    Args:
        width: coordinates that the forms read.
        seconds: time to spend on each kind.

    Returns:
        A rate for every kind of work.
    """
    generator = torch.Generator().manual_seed(0)
    factors, tokens = (torch.randn(size, width, generator=generator) for size in (ATOMS, TOKENS_AT_ONCE))
    return StepWork(
        products=2 * factors.numel() * len(tokens) / _fastest(lambda: factors @ tokens.mT, seconds),
        sparse_products=_sparse_rate(_mixing(ATOMS, generator), generator, seconds),
        # Twice as many atoms: SparseMuon reads entries in a random order, which costs more once a cache is too small.
        pair_rounds=_pair_rate(_mixing(2 * ATOMS, generator), seconds),
        numbers=_number_rate(factors, generator, seconds),
    )


def _mixing(n_atoms: int, generator: torch.Generator) -> Sparse:
    mixing = scattered_mixing((n_atoms // 2, n_atoms), ATOMS_PER_LATENT / n_atoms, 1.0, generator)
    assert isinstance(mixing, Sparse)
    return mixing


def _number_rate(factors: Tensor, generator: torch.Generator, seconds: float) -> float:
    """Numbers per second that gathers, products and scatters of rows write, into memory that is allocated each time."""
    atoms = torch.randint(len(factors), (NUMBERS_AT_ONCE // factors.shape[1],), generator=generator)
    weights, total = torch.randn(len(atoms), 1, generator=generator), torch.zeros_like(factors)

    def work() -> None:
        total.index_add_(0, atoms, factors.index_select(0, atoms) * weights)

    return 3 * len(atoms) * factors.shape[1] / _fastest(work, seconds)


def _sparse_rate(mixing: Sparse, generator: torch.Generator, seconds: float) -> float:
    """FLOPs per second of the three products of a sparse C with activations."""
    pattern, values = mixing.pattern, mixing.values.detach()
    latents, activations = (torch.randn(size, TOKENS_AT_ONCE, generator=generator) for size in mixing.shape)
    forward = csr_matrix(values, pattern)
    backward = csr_matrix(values[pattern.by_column], pattern.transposed())

    def work() -> None:
        csr_product(forward, activations)
        csr_product(backward, latents)
        sampled_product(latents, activations.mT, pattern)

    return 6 * len(values) * TOKENS_AT_ONCE / _fastest(work, seconds)


def _pair_rate(mixing: Sparse, seconds: float) -> float:
    """Pairs per second and round of SparseMuon."""
    pattern, values = mixing.pattern, mixing.values.detach()
    pairs = column_pairs(pattern)
    return len(pairs.first) / _fastest(lambda: orthogonalized_on_pattern(values, pairs, 1), seconds)


def _fastest(work: Callable[[], object], seconds: float) -> float:
    """The shortest time of as many runs as fit in the given time, and at least two."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)
