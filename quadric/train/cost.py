"""The cost of one training step, predicted from its sizes: FLOPs and peak memory.

Only matrix products are counted, as torch.utils.flop_counter does (two FLOPs per multiplication), and products with a
sparse C by its entries. Everything else in a step is element-wise and takes little time in comparison.
"""

from dataclasses import dataclass
from typing import NamedTuple

from quadric.model.bilinear import DEFAULT_BLOCK, ErrorPath, default_hidden, error_path
from quadric.model.fast.kernel import count_upper, n_kept_overlaps
from quadric.model.fast.latents import TOKENS_AT_ONCE, keeps_activations
from quadric.model.fast.lifted import NUMBERS_AT_ONCE, product_width
from quadric.model.fast.shared import Share
from quadric.model.mixing import SPARSE_BELOW, Prior
from quadric.model.products import block_pairs, row_blocks
from quadric.train.config import AutoencoderConfig
from quadric.train.learner import mixing_density_at
from quadric.train.optimizers import MOST_PAIRS, ROUNDS

FLOAT = 4
ALONE = Share(0, 1)
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
    top_latents: int | None = None
    """Latents that reconstruct each token; None for all."""
    has_mean_penalty: bool = False
    n_processes: int = 1
    """Processes that share the work on the kernel and Muon."""

    @property
    def is_sparse(self) -> bool:
        """Whether C is stored by its entries."""
        return self.prior == "composite" and self.n_entries < SPARSE_BELOW * self.n_latents * self.n_hidden

    @property
    def n_entries(self) -> int:
        """Number of entries of C."""
        if self.prior == "atomic":
            return self.n_latents
        return max(1, round(self.mixing_density * self.n_latents * self.n_hidden))

    @property
    def n_used_atoms(self) -> int:
        """Expected number of atoms with an entry if entries were placed at random; training tends to leave fewer."""
        if not self.is_sparse:
            return self.n_hidden
        empty: float = (1 - self.n_entries / (self.n_latents * self.n_hidden)) ** self.n_latents
        return round(self.n_hidden * (1 - empty))

    @property
    def n_pairs(self) -> int:
        """Pairs of entries in the same column that SparseMuon works on, expected if entries were placed at random."""
        pairs = self.n_entries + self.n_entries**2 // self.n_hidden if self.is_sparse else 0
        return pairs if pairs <= MOST_PAIRS else 0

    @property
    def computes_activations_twice(self) -> bool:
        """Whether the backward pass computes the activations of the atoms again."""
        return self.is_sparse and not keeps_activations(self.n_tokens, self.n_used_atoms)

    @property
    def error_path(self) -> ErrorPath:
        """How the error is computed."""
        return error_path(
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            width=self.d_model,
            is_sparse=self.is_sparse or self.prior == "atomic",
            symmetric=self.symmetric,
        )

    @property
    def product_width(self) -> int:
        """Dimensions of the product space."""
        return product_width(self.d_model, self.symmetric)


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


def phases(config: AutoencoderConfig, d_model: int, n_tokens: int, steps: int, n_processes: int = 1) -> list[Phase]:
    """The phases of a run: a composite autoencoder trains with dense C first, or with more entries than it keeps if C
    starts sparse; the others have one phase.

    Args:
        config: of the autoencoder.
        d_model: width of the activations.
        n_tokens: tokens per batch and process.
        steps: of the run.
        n_processes: that share every step.

    Returns:
        One or two phases, in order.
    """
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
            has_mean_penalty=config.mean_penalty > 0,
            top_latents=config.top_latents if (config.top_latents or hidden) < config.n_latents else None,
            n_processes=n_processes,
        )

    if config.prior != "composite":
        return [Phase("whole run", 0, steps - 1, size(1.0))]
    sizes = [
        size(mixing_density_at(step, steps, config.mixing_density, config.initial_density)) for step in range(steps)
    ]
    n_dense = sum(not each.is_sparse for each in sizes)
    found, n_before = [], n_dense
    if n_dense:
        found.append(Phase("dense C", 0, n_dense - 1, sizes[0]))
    elif n_before := sum(each.n_entries > sizes[-1].n_entries for each in sizes):
        found.append(Phase("sparse C, annealed", 0, n_before - 1, sizes[0]))
    if n_before < steps:
        found.append(Phase("sparse C", n_before, steps - 1, sizes[-1]))
    return found


def half_share(size: int) -> float:
    """Share of a symmetric product that is computed when only blocks on and above the diagonal are."""
    return float(count_upper(row_blocks(size), size) / (size * size))


class _Part(NamedTuple):
    """How much of a symmetric matrix one process computes."""

    upper: int
    """Entries of its blocks of rows, from the diagonal blocks on."""
    both: int
    """The same with their mirror images."""
    rows: int

    @classmethod
    def of(cls, size: int, share: Share) -> "_Part":
        blocks = row_blocks(size) if share.world_size == 1 else share.row_blocks(size)
        upper, lengths = count_upper(blocks, size), [rows.stop - rows.start for rows in blocks]
        return cls(upper, 2 * upper - sum(length**2 for length in lengths), sum(lengths))


def step_flops(size: StepSize) -> StepFlops:
    """FLOPs of the matrix products of one step: forward, backward and update; those of the busiest process."""
    shares = [Share(number, size.n_processes) for number in range(size.n_processes)]
    return max((_own_flops(size, share) for share in shares), key=lambda flops: flops.total)


def _own_flops(size: StepSize, share: Share) -> StepFlops:
    n, d, k, h = size.n_tokens, size.d_model, size.n_latents, size.n_used_atoms
    return StepFlops(
        encode=float((12 if size.computes_activations_twice else 8) * n * h * d),
        gram=0.0 if size.error_path == "lifted" else _gram_flops(size, share),
        mixing=_mixing_flops(size),
        kernel={"kernel": _kernel_flops(size, share), "blocked": 0.0, "lifted": _form_flops(size)}[size.error_path],
        error={"kernel": 2 * n * k**2 * (1 + half_share(k)), "blocked": 0.0, "lifted": _lifted_flops(size)}[
            size.error_path
        ]
        + mean_flops(size),
        optimizer=_optimizer_flops(size, share),
    )


def _gram_flops(size: StepSize, share: Share) -> float:
    """Products of factors: upper blocks in the forward pass, those of a factor with itself again in the backward pass
    unless they were kept, whole products for the gradients. The blocked form adds wᵀGw and computes G twice, in every
    process."""
    h, d = size.n_used_atoms, size.d_model
    n_products = 4 if size.symmetric else 2
    if size.error_path == "kernel":
        part = _Part.of(h, share)
        n_again = 0 if n_kept_overlaps(h, size.symmetric) == 4 else 2
        return float(2 * d * (n_products * part.both + (n_products + n_again) * part.upper))
    upper = sum((a.stop - a.start) * (b.stop - b.start) for a, b in block_pairs(h, DEFAULT_BLOCK))
    return float(4 * n_products * 2 * upper * d + 2 * size.n_tokens * (h**2 + upper))


def _mixing_flops(size: StepSize) -> float:
    """Forward and two gradients; the blocked form also maps latents back to atoms."""
    if size.prior == "atomic":
        return 0.0
    entries = size.n_entries if size.is_sparse else size.n_latents * size.n_hidden
    return float(6 * size.n_tokens * entries * (2 if size.error_path == "blocked" else 1))


def _form_flops(size: StepSize) -> float:
    """In the product space: norms of all forms from the Gram matrices of their atoms, to choose the strongest latents;
    and the overlap between forms."""
    if size.top_latents is None:
        return overlap_flops(size)
    per_latent = size.n_entries / size.n_latents  # if all latents have as many atoms
    n_products = 4 if size.symmetric else 2
    return 2 * size.n_entries * per_latent * (n_products * size.d_model + 1) + overlap_flops(size)


def overlap_flops(size: StepSize) -> float:
    """FLOPs of the overlap penalty in the product space: forms and their p×p moment, and both again with gradients."""
    if not size.has_overlap_penalty:
        return 0.0
    forms, p = 2 * size.n_entries * size.d_model**2, size.product_width
    return 4 * forms + 2 * size.n_latents * p**2 * (1 + half_share(p))


def mean_flops(size: StepSize) -> float:
    """FLOPs of the penalty on the mean: the mean of x̃x̃ᵀ; and what reconstructs it, with two gradients: a product with C
    and one of the factors."""
    if not size.has_mean_penalty:
        return 0.0
    entries = size.n_entries if size.is_sparse else size.n_latents * size.n_hidden
    mixing = 0 if size.prior == "atomic" else entries
    return float(2 * size.n_tokens * size.d_model**2 + 6 * (mixing + size.n_used_atoms * size.d_model**2))


def _lifted_flops(size: StepSize) -> float:
    """A sum of outer products per token with two gradients, if few latents reconstruct it, with as many atoms as the
    average latent has; else forms and the reconstruction, both with two gradients, and forms once more."""
    n, k, forms = size.n_tokens, size.n_latents, 2 * size.n_entries * size.d_model**2
    if size.top_latents is not None:
        return 3 * forms * n * size.top_latents / k
    return float(6 * n * k * size.product_width + 4 * forms)


def _kernel_flops(size: StepSize, share: Share) -> float:
    """Alone, CG is computed whole and every other product by its upper half. A shared kernel takes three products with
    C of each kind: of the upper blocks, and of rows of the kernel's gradient or of C alone."""
    k, h = size.n_latents, size.n_used_atoms
    if size.prior == "atomic":
        return 0.0
    part = _Part.of(h, share)
    if share.world_size > 1:
        entries_per_atom = size.n_entries / h if size.is_sparse else k
        return float(6 * entries_per_atom * (part.upper + k * part.rows))
    if size.is_sparse:
        return float(2 * size.n_entries * (2 * h + 3 * k))
    return 2 * k * h**2 * (1 + half_share(h)) + 2 * k**2 * h * (half_share(k) + 2)


def _optimizer_flops(size: StepSize, share: Share) -> float:
    """L and R are updated by one process each, a large dense C by all together."""
    own_factors = sum(number % share.world_size == share.number for number in range(2))
    factors = own_factors * muon_flops(size.n_hidden, size.d_model)
    if size.prior == "atomic" or size.is_sparse:
        return factors
    if len(row_blocks(min(size.n_latents, size.n_hidden))) > 1:
        return factors + muon_flops(size.n_latents, size.n_hidden, share)
    return factors + (muon_flops(size.n_latents, size.n_hidden) if share.number == 0 else 0.0)


def muon_flops(rows: int, columns: int, share: Share = ALONE) -> float:
    """FLOPs of Muon: two passes over the matrix, and the rounds on its small side.

    Args:
        rows: of the matrix.
        columns: of the matrix.
        share: part of every product that is counted; all of it by default.
    """
    small, large = min(rows, columns), max(rows, columns)
    n_small = ROUNDS + 3 * (ROUNDS - 1)
    upper = _Part.of(small, share).upper
    n_rows = -(-large // share.world_size)
    own_rows = max(0, min(n_rows, large - share.number * n_rows))
    return float(2 * small * small * own_rows + 2 * upper * (large + n_small * small))


def step_memory(size: StepSize) -> StepMemory:
    """Peak bytes of training: parameters, optimizer state, gradients, and the peak within a step."""
    state = FLOAT * (_state_numbers(size) + _pair_numbers(size))
    moments = {"kernel": _moments, "blocked": _blocked_moments, "lifted": _lifted_moments}[size.error_path](size)
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
    """Two int64 indices per pair, and three per entry for the position on the diagonal of XXᵀ that it shares."""
    return 4 * size.n_pairs + (6 * size.n_entries if size.n_pairs else 0)


def _moments(size: StepSize) -> list[int]:
    """Numbers held at each moment of a step that can be the peak, in order."""
    n, d, k, h = size.n_tokens, size.d_model, size.n_latents, size.n_used_atoms
    part = _Part.of(h, Share(0, size.n_processes))
    is_shared = size.n_processes > 1
    overlaps = n_kept_overlaps(h, size.symmetric) * part.upper
    masked = k * h if size.prior == "composite" and not size.is_sparse else 0
    mixed = 0 if size.prior == "atomic" else k * part.rows
    # A shared kernel keeps its rows of G for the gradient of C; the kernel's parts and their sum are held together.
    rows_of_gram = part.upper if is_shared and mixed else 0
    parts = k**2 if is_shared else 0
    gram = part.upper if is_shared else h**2
    latents = 0 if size.prior == "atomic" else n * k
    # Both activations of every atom and, if C is dense, their products.
    kept = 3 * n * h + masked if not size.is_sparse else 0 if size.computes_activations_twice else 2 * n * h
    chunk = (4 if size.computes_activations_twice else 2) * min(n, TOKENS_AT_ONCE) * h if size.is_sparse else 0
    used = 2 * h * d if size.is_sparse else 0  # the factors of the used atoms
    factor_grads = 2 * h * d
    mixing_grad = k * h if mixed and not (is_shared and size.is_sparse) else 0
    penalty = k**2 if size.has_overlap_penalty else 0  # its own gradient of K
    chosen = 5 * n * k // 4 if size.top_latents is not None else 0  # the strongest latents, and which they are
    return [
        overlaps + gram + 2 * mixed + used + 2 * parts,  # forward: G and CG
        kept
        + latents
        + overlaps
        + rows_of_gram
        + mixed
        + 9 * n * k // 4
        + chosen
        + k**2
        + penalty
        + used,  # gradient of the error: P, ∂Z, S
        kept
        + n * k
        + (n * h if mixed and not size.is_sparse else chunk)
        + overlaps
        + rows_of_gram
        + mixed
        + k**2
        + factor_grads
        + used,  # gradient of Z
        # gradient of the kernel
        overlaps + rows_of_gram + mixed + mixing_grad + (2 * k**2 if mixed else 0) + parts + gram + factor_grads + used,
        overlaps + gram + gram // 4 + 2 * factor_grads + used,  # gradient of G
        2 * size.n_hidden * d + _optimizer_moment(size),
    ]


def _optimizer_moment(size: StepSize) -> int:
    """Muon holds the momentum with look-ahead, the scaled matrix, the result, and a few small square matrices."""
    # Processes that take turns hold the momenta and results of both factors.
    n_held = 3 if size.n_processes == 1 else 5
    factor = n_held * size.n_hidden * size.d_model + 5 * min(size.n_hidden, size.d_model) ** 2
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


def _lifted_moments(size: StepSize) -> list[int]:
    n, k, h, d = size.n_tokens, size.n_latents, size.n_used_atoms, size.d_model
    chunk = (4 if size.is_sparse else 3) * min(n, TOKENS_AT_ONCE) * h
    rebuilt = n * (d * d if size.top_latents is not None else 3 * size.product_width)
    factors = 4 * h * d  # of the used atoms, and their gradients
    overlap = 2 * size.product_width**2 if size.has_overlap_penalty else 0
    return [
        n * k + chunk + factors // 2,  # latents
        3 * n * k + rebuilt + 4 * NUMBERS_AT_ONCE + factors + overlap,  # gradients of the error and of the density
        n * k + chunk + 2 * factors,  # gradient of Z, beside that of the reconstruction
        2 * size.n_hidden * d + _optimizer_moment(size),
    ]


def checkpoint_bytes(size: StepSize) -> int:
    """Disk space of one checkpoint of one autoencoder, without the few bytes of the offset."""
    return FLOAT * _state_numbers(size)
