"""The cost of one training step, predicted from its sizes: FLOPs and peak memory.

Only matrix products are counted, as torch.utils.flop_counter does (two FLOPs per multiplication), and products with a
sparse C by its entries. Everything else in a step is element-wise and takes little time in comparison.
"""

from dataclasses import dataclass
from typing import NamedTuple

from quadric.autoencoders.bilinear import DEFAULT_BLOCK, LARGEST_DENSE_GRAM, default_hidden
from quadric.autoencoders.kernels.latents import TOKENS_AT_ONCE
from quadric.autoencoders.kernels.products import block_pairs, row_blocks
from quadric.autoencoders.mixing import SPARSE_BELOW, Prior
from quadric.training.config import AutoencoderConfig
from quadric.training.learner import mixing_density_at
from quadric.training.optimizers import MOST_PAIRS, ROUNDS

FLOAT = 4
ALLOCATOR_OVERHEAD = 1.2
"""Measured: a step with sparse C allocates pieces of a few mebibytes, which malloc keeps after they are freed."""


@dataclass(frozen=True, kw_only=True)
class StepSize:
    """Everything that the cost of a step depends on."""

    d_model: int
    """Coordinates that the forms read."""
    n_tokens: int
    """Tokens per batch and process."""
    n_latents: int
    n_hidden: int
    prior: Prior
    mixing_density: float = 1.0
    """Share of C that is kept at this step; used for composite steps only."""
    symmetric: bool = True
    has_overlap_penalty: bool = False
    has_top_latents: bool = False

    @property
    def is_sparse(self) -> bool:
        """Whether C is stored by its entries."""
        return self.prior == "composite" and self.n_entries < SPARSE_BELOW * self.n_latents * self.n_hidden

    @property
    def n_entries(self) -> int:
        """Number of entries of C."""
        return max(1, round(self.mixing_density * self.n_latents * self.n_hidden))

    @property
    def n_used_atoms(self) -> int:
        """Expected number of atoms with an entry if entries were placed at random; training tends to leave fewer."""
        if not self.is_sparse:
            return self.n_hidden
        empty: float = (1 - self.n_entries / (self.n_latents * self.n_hidden)) ** self.n_latents
        return round(self.n_hidden * (1 - empty))

    @property
    def is_blocked(self) -> bool:
        """Whether the Gram matrix is computed in blocks instead of being held in memory."""
        return self.n_hidden > LARGEST_DENSE_GRAM


class StepFlops(NamedTuple):
    """FLOPs of one step, by what they are spent on."""

    encode: float
    gram: float
    mixing: float
    kernel: float
    error: float
    optimizer: float

    @property
    def total(self) -> float:
        return float(sum(self))


class StepMemory(NamedTuple):
    """Bytes held between steps, and the most that a step holds in addition."""

    state: int
    working: int

    @property
    def peak(self) -> int:
        return self.state + self.working


class Phase(NamedTuple):
    """Consecutive steps with the same storage of C; the cost is that of the most expensive one."""

    name: str
    first_step: int
    last_step: int
    size: StepSize


def phases(config: AutoencoderConfig, d_model: int, n_tokens: int, steps: int) -> list[Phase]:
    """The phases of a run: a composite autoencoder trains with dense C first; the others have one phase."""
    if config.kind != "bilinear":
        raise ValueError(f"the cost of kind={config.kind!r} is not modelled; only bilinear autoencoders are")
    hidden = default_hidden(config.n_latents, config.prior) if config.n_hidden is None else config.n_hidden

    def size(density: float) -> StepSize:
        return StepSize(
            d_model=d_model + (config.lens == "affine"),  # the constant is one more coordinate
            n_tokens=n_tokens,
            n_latents=config.n_latents,
            n_hidden=hidden,
            prior=config.prior,
            mixing_density=density,
            symmetric=config.symmetric,
            has_overlap_penalty=config.overlap_penalty > 0,
            has_top_latents=config.top_latents is not None and config.top_latents < config.n_latents,
        )

    if config.prior != "composite":
        return [Phase("whole run", 0, steps - 1, size(1.0))]
    sizes = [size(mixing_density_at(step, steps, config.mixing_density)) for step in range(steps)]
    n_dense = sum(not each.is_sparse for each in sizes)
    found = []
    if n_dense:
        found.append(Phase("dense C", 0, n_dense - 1, sizes[0]))
    if n_dense < steps:
        found.append(Phase("sparse C", n_dense, steps - 1, sizes[-1]))
    return found


def half_share(size: int) -> float:
    """Share of a symmetric product that is computed when only blocks on and above the diagonal are."""
    computed = sum((rows.stop - rows.start) * (size - rows.start) for rows in row_blocks(size))
    return float(computed / (size * size))


def step_flops(size: StepSize) -> StepFlops:
    """FLOPs of the matrix products of one step: forward, backward and update."""
    n, d, k, h = size.n_tokens, size.d_model, size.n_latents, size.n_used_atoms
    return StepFlops(
        encode=float((12 if size.is_sparse else 8) * n * h * d),  # sparse C: atom activations are computed twice
        gram=_gram_flops(size),
        mixing=_mixing_flops(size),
        kernel=0.0 if size.is_blocked else _kernel_flops(size),
        error=0.0 if size.is_blocked else 2 * n * k**2 * (1 + half_share(k)),
        optimizer=_optimizer_flops(size),
    )


def _gram_flops(size: StepSize) -> float:
    """Products of factors: upper blocks in the forward pass, those of a factor with itself again in the backward pass,
    whole products for the gradients. The blocked form adds wᵀGw and computes G twice."""
    h, d = size.n_used_atoms, size.d_model
    n_products = 4 if size.symmetric else 2
    if not size.is_blocked:
        return 2 * h**2 * d * (n_products + (n_products + 2) * half_share(h))
    upper = sum((a.stop - a.start) * (b.stop - b.start) for a, b in block_pairs(h, DEFAULT_BLOCK))
    return float(4 * n_products * 2 * upper * d + 2 * size.n_tokens * (h**2 + upper))


def _mixing_flops(size: StepSize) -> float:
    """Forward and two gradients; the blocked form also maps latents back to atoms."""
    if size.prior == "atomic":
        return 0.0
    entries = size.n_entries if size.is_sparse else size.n_latents * size.n_hidden
    return float(6 * size.n_tokens * entries * (2 if size.is_blocked else 1))


def _kernel_flops(size: StepSize) -> float:
    k, h = size.n_latents, size.n_used_atoms
    if size.prior == "atomic":
        return 0.0
    if size.is_sparse:
        return float(2 * size.n_entries * (2 * h + 3 * k))
    return 2 * k * h**2 * (1 + half_share(h)) + 2 * k**2 * h * (half_share(k) + 2)


def _optimizer_flops(size: StepSize) -> float:
    factors = 2 * muon_flops(size.n_hidden, size.d_model)
    has_dense_mixing = size.prior != "atomic" and not size.is_sparse
    return factors + (muon_flops(size.n_latents, size.n_hidden) if has_dense_mixing else 0.0)


def muon_flops(rows: int, columns: int) -> float:
    """FLOPs of Muon: two passes over the matrix, and the rounds on its small side."""
    small, large = min(rows, columns), max(rows, columns)
    n_small = ROUNDS + 3 * (ROUNDS - 1)
    passes = 2 * small * small * large * (half_share(small) + 1)
    return passes + n_small * 2 * small * small * small * half_share(small)


def step_memory(size: StepSize) -> StepMemory:
    """Peak bytes of training: parameters, optimizer state, gradients, and the peak within a step."""
    state = FLOAT * (_state_numbers(size) + _pair_numbers(size))
    moments = _blocked_moments(size) if size.is_blocked else _moments(size)
    # The batch as read and scaled to unit norm.
    working = FLOAT * (max(moments) + 2 * size.n_tokens * size.d_model)
    return StepMemory(state, round(ALLOCATOR_OVERHEAD * working) if size.is_sparse else working)


def _state_numbers(size: StepSize) -> int:
    """Factors and their momentum; C with its momentum and mask, or its entries with their positions and momentum."""
    factors = 4 * size.n_hidden * size.d_model
    if size.prior == "atomic":
        return factors
    if size.is_sparse:
        return factors + 10 * size.n_entries
    dense = size.n_latents * size.n_hidden
    return factors + 2 * dense + (dense // FLOAT if size.prior == "composite" else 0)


def _pair_numbers(size: StepSize) -> int:
    """Pairs of entries in the same column if entries were placed at random: four int64 indices per pair."""
    if not size.is_sparse:
        return 0
    pairs = size.n_entries + size.n_entries**2 // size.n_hidden
    return 8 * pairs if pairs <= MOST_PAIRS else 0


def _moments(size: StepSize) -> list[int]:
    """Numbers held at each moment of a step that can be the peak, in order."""
    n, d, k, h = size.n_tokens, size.d_model, size.n_latents, size.n_used_atoms
    overlaps = round((2 if size.symmetric else 0) * half_share(h) * h**2)
    masked = k * h if size.prior == "composite" and not size.is_sparse else 0
    mixed = 0 if size.prior == "atomic" else k * h
    latents = 0 if size.prior == "atomic" else n * k
    kept = 0 if size.is_sparse else 3 * n * h + masked  # both activations of every atom, and their products
    chunk = 4 * min(n, TOKENS_AT_ONCE) * h if size.is_sparse else 0
    used = 2 * h * d if size.is_sparse else 0  # the factors of the used atoms
    factor_grads = 2 * h * d
    penalty = k**2 if size.has_overlap_penalty else 0  # its own gradient of K
    chosen = 5 * n * k // 4 if size.has_top_latents else 0  # the strongest latents, and which they are
    return [
        overlaps + h**2 + 2 * mixed + used,  # forward: G and CG
        kept
        + latents
        + overlaps
        + mixed
        + 9 * n * k // 4
        + chosen
        + k**2
        + penalty
        + used,  # gradient of the error: P, ∂Z, S
        kept
        + n * k
        + (n * h if mixed and kept else chunk)
        + overlaps
        + mixed
        + k**2
        + factor_grads
        + used,  # gradient of Z
        overlaps + 2 * mixed + (2 * k**2 if mixed else 0) + h**2 + factor_grads + used,  # gradient of the kernel
        overlaps + h**2 + h**2 // 4 + 2 * factor_grads + used,  # gradient of G
        2 * size.n_hidden * d + _optimizer_moment(size),
    ]


def _optimizer_moment(size: StepSize) -> int:
    """Muon holds the momentum with look-ahead, the scaled matrix, the result, and a few small square matrices."""
    factor = 3 * size.n_hidden * size.d_model + 5 * min(size.n_hidden, size.d_model) ** 2
    if size.prior == "atomic" or size.is_sparse:
        return factor
    small = min(size.n_latents, size.n_hidden)
    return max(factor, 4 * size.n_latents * size.n_hidden + 5 * small**2)


def _blocked_moments(size: StepSize) -> list[int]:
    n, k, h = size.n_tokens, size.n_latents, size.n_used_atoms
    latents = 0 if size.prior == "atomic" else n * k
    masked = k * h if size.prior == "composite" and not size.is_sparse else 0
    weights = 0 if size.prior == "atomic" else n * h
    block = min(h, DEFAULT_BLOCK) ** 2
    kept = 3 * n * h + masked + 2 * latents + weights
    backward = kept + 3 * n * h + 8 * block + 2 * h * size.d_model
    return [backward, 2 * size.n_hidden * size.d_model + _optimizer_moment(size)]


def checkpoint_bytes(size: StepSize) -> int:
    """Disk space of one checkpoint of one autoencoder, without the few bytes of the offset."""
    return FLOAT * _state_numbers(size)
