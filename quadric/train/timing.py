"""How long a step in the product space takes, from what it does and how fast this machine does each part of it.

At these sizes dense products take a third of a step. The rest moves numbers through memory: products with a sparse C,
Muon on its entries, gathers of factors, and element-wise operations on arrays far larger than a cache, which the system
has to map page by page. So every part of a step is timed itself, on a smaller dictionary of the same width with as many
atoms per latent, and scaled by the amount of its work. The arrays are large enough to leave the caches, as those of the
step do.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from quadric.model.fast.latents import TOKENS_AT_ONCE, latent_norms, sparse_latents, strongest
from quadric.model.fast.lifted import SparseRows, few_latents_form, form_norms, lifted_reconstruction
from quadric.model.mixing import Entries, Sparse, scattered_mixing
from quadric.model.products import csr_matrix, csr_product, sampled_product
from quadric.train.cost import StepSize, mean_flops, overlap_flops
from quadric.train.optimizers import ROUNDS, Muon, column_pairs, orthogonalized_on_pattern

ATOMS = 2**14
"""Atoms that parts are timed with: their activations on a block of tokens do not fit in a cache."""
RECONSTRUCTED_TOKENS, RECONSTRUCTED_LATENTS = 128, 512
"""How many of them the reconstruction is timed with."""


class StepWork(NamedTuple):
    """What a step does, by part; as rates, how much of each this machine does per second."""

    activations: float
    """Tokens × atoms: activations and their gradients, with one entry of C per atom."""
    entries: float
    """Tokens × entries of C beyond those: products with a sparse C."""
    latents: float
    """Tokens × latents: the choice of the strongest, and the norms that make up the density penalty."""
    reconstruction: float
    """Tokens × chosen latents × atoms of each, with gradients; tokens × latents if all of them reconstruct a token."""
    forms: float
    """Entries of C in the norms of all forms, by which the strongest latents are chosen."""
    factors: float
    """Numbers in L and R: Muon, and what becomes of their gradients before it."""
    pair_rounds: float
    """Pairs of entries that share a column, times rounds, in SparseMuon."""
    penalties: float
    """FLOPs of the penalties on overlap and mean, nearly all of which are dense products."""

    def seconds(self, rates: "StepWork") -> float:
        """Time of this work at these rates."""
        return float(sum(work / rate for work, rate in zip(self, rates, strict=True)))


def lifted_work(size: StepSize) -> StepWork:
    """The work of one step in the product space, for one process; that of Muon on L and R is not divided."""
    n, k, atoms = size.n_tokens, size.n_latents, size.n_used_atoms
    per_latent = size.n_entries / k
    few = size.top_latents is not None
    return StepWork(
        activations=float(n * atoms),
        entries=float(n * max(0, size.n_entries - atoms)),
        latents=float(n * k),
        reconstruction=n * (k if size.top_latents is None else size.top_latents * per_latent),
        forms=float(size.n_entries if few else 0),
        factors=float(2 * size.n_hidden * size.d_model),
        pair_rounds=float(ROUNDS * size.n_pairs),
        penalties=overlap_flops(size) + mean_flops(size),
    )


def measure_rates(size: StepSize, seconds: float = 0.1) -> StepWork:
    """Work of each part that this machine's CPU does per second.

    Args:
        size: of the step; rates hold for others of the same width and number of chosen latents.
        seconds: time to spend on each part, or on two runs of it if they take longer.

    Returns:
        A rate for every part.
    """
    sample = _Sample(size)
    return StepWork(
        activations=_activation_rate(sample, seconds),
        entries=_entry_rate(sample, seconds),
        latents=_latent_rate(sample, seconds),
        reconstruction=_reconstruction_rate(sample, seconds),
        forms=len(sample.rows.values) / _fastest(lambda: form_norms(*sample.arguments), seconds),
        factors=_factor_rate(sample, seconds),
        pair_rounds=_pair_rate(sample, seconds),
        penalties=_product_rate(sample, seconds),
    )


class _Sample:
    """A dictionary with fewer latents and atoms, and otherwise like the one that is planned."""

    def __init__(self, size: StepSize) -> None:
        self.size, self.generator = size, torch.Generator().manual_seed(0)
        self.n_atoms = min(size.n_hidden, ATOMS)
        self.n_latents = max(1, size.n_latents * self.n_atoms // size.n_hidden)
        self.n_tokens = min(size.n_tokens, TOKENS_AT_ONCE)
        self.mixing = self.scattered(size.n_entries / size.n_latents / self.n_atoms)
        self.rows = SparseRows(self.mixing.values, self.mixing.pattern)
        self.left, self.right = (self.random(self.n_atoms, size.d_model).requires_grad_() for _ in range(2))

    @property
    def arguments(self) -> tuple[Tensor, Tensor, SparseRows, bool]:
        """What functions of all forms take."""
        return self.left, self.right, self.rows, self.size.symmetric

    def scattered(self, density: float) -> Sparse:
        mixing = scattered_mixing((self.n_latents, self.n_atoms), density, 1.0, self.generator)
        assert isinstance(mixing, Sparse)
        return mixing

    def random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)


def _activation_rate(sample: _Sample, seconds: float) -> float:
    """On two blocks of tokens, if there are as many: blocks after the first use its memory again."""
    tokens = sample.random(min(sample.size.n_tokens, 2 * TOKENS_AT_ONCE), sample.size.d_model)
    once = sample.scattered(1 / sample.n_latents)
    grad = sample.random(sample.n_latents, len(tokens)).mT

    def work() -> None:
        latents = sparse_latents(tokens, sample.left, sample.right, once.values, once.pattern)
        torch.autograd.grad(latents, (sample.left, sample.right, once.values), grad)

    return len(tokens) * sample.n_atoms / _fastest(work, seconds)


def _entry_rate(sample: _Sample, seconds: float) -> float:
    """The three products of a sparse C with activations."""
    pattern, values = sample.mixing.pattern, sample.mixing.values.detach()
    latents, activations = (sample.random(size, sample.n_tokens) for size in pattern.shape)
    forward = csr_matrix(values, pattern)
    backward = csr_matrix(values[pattern.by_column], pattern.transposed())
    results = torch.empty_like(latents), torch.empty_like(activations)

    def work() -> None:
        csr_product(forward, activations, results[0])
        csr_product(backward, latents, results[1])
        sampled_product(latents, activations.mT, pattern)

    return len(values) * sample.n_tokens / _fastest(work, seconds)


def _latent_rate(sample: _Sample, seconds: float) -> float:
    """All operations on every latent of every token but the products with C."""
    latents = sample.random(sample.n_latents, sample.n_tokens).mT.requires_grad_()
    offset, norms = torch.zeros(sample.n_latents, requires_grad=True), torch.ones(sample.n_latents)

    def work() -> None:
        used = list(latent_norms(latents, offset))
        if sample.size.top_latents is not None:
            indices = strongest(latents, norms, sample.size.top_latents)
            used.append(latents.mT.gather(0, indices.mT))
        torch.autograd.grad(used, (latents, offset), [torch.ones_like(each) for each in used])

    return latents.numel() / _fastest(work, seconds)


def _reconstruction_rate(sample: _Sample, seconds: float) -> float:
    """The squared norm of reconstructions with its gradients: of some tokens, or from some latents."""
    if sample.size.top_latents is None:
        return _whole_reconstruction_rate(sample, seconds)
    shape = RECONSTRUCTED_TOKENS, sample.size.top_latents
    indices = torch.randint(sample.n_latents, shape, generator=sample.generator)
    chosen = sample.random(*shape).requires_grad_()

    def work() -> None:
        squares = few_latents_form(chosen, indices, *sample.arguments)
        torch.autograd.grad(squares.sum(), (chosen, sample.left, sample.right, sample.rows.values))

    return chosen.numel() * sample.size.n_entries / sample.size.n_latents / _fastest(work, seconds)


def _whole_reconstruction_rate(sample: _Sample, seconds: float) -> float:
    n_latents = min(sample.n_latents, RECONSTRUCTED_LATENTS)
    entries = sample.mixing.entries()
    own = entries.rows < n_latents
    mixing = Sparse(Entries(*(each[own] for each in entries)), (n_latents, sample.n_atoms))
    latents = sample.random(n_latents, sample.n_tokens).mT.requires_grad_()
    rows = SparseRows(mixing.values, mixing.pattern)

    def work() -> None:
        rebuilt = lifted_reconstruction(latents, sample.left, sample.right, rows, sample.size.symmetric)
        torch.autograd.grad(rebuilt.square().sum(), (latents, sample.left, sample.right, mixing.values))

    return latents.numel() / _fastest(work, seconds)


def _factor_rate(sample: _Sample, seconds: float) -> float:
    """Rows of the used atoms, their gradients from the latents and from the error, and Muon."""
    factors = [nn.Parameter(each.detach().clone()) for each in (sample.left, sample.right)]
    grads, atoms = [torch.ones_like(each) for each in factors], torch.arange(sample.n_atoms)
    muon = Muon(factors, lr=0.01, momentum=0.95)

    def work() -> None:
        used = [each.index_select(0, atoms) for each in factors]
        torch.autograd.backward([*used, *used], [*grads, *grads])
        muon.step()
        muon.zero_grad()

    return 2 * sample.left.numel() / _fastest(work, seconds)


def _pair_rate(sample: _Sample, seconds: float) -> float:
    """Pairs per second and round of SparseMuon."""
    values, pairs = sample.mixing.values.detach(), column_pairs(sample.mixing.pattern)
    return len(pairs.first) / _fastest(lambda: orthogonalized_on_pattern(values, pairs, 1), seconds)


def _product_rate(sample: _Sample, seconds: float) -> float:
    left, tokens = sample.left.detach(), sample.random(sample.n_tokens, sample.size.d_model)
    return 2 * left.numel() * len(tokens) / _fastest(lambda: left @ tokens.mT, seconds)


def _fastest(work: Callable[[], object], seconds: float) -> float:
    """The shortest time of as many runs as fit in the given time, and at least two."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)
