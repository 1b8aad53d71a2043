"""Measures of an autoencoder on held-out tokens, accumulated over batches.

Among them is the error against the number of latents used per token, bilinear and linear dictionaries on one curve, and
the floor: how well any k quadratic latents could rebuild these tokens, by principal components of xxᵀ. A tied
dictionary rebuilds X = xxᵀ by a linear map of rank k, and no such map leaves less than uncentred PCA of X. The d²×d²
second moment is never formed: its non-zero eigenvalues are those of the Gram matrix (x_a·x_b)² of a sample.
"""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from quadric.evaluation.blocks import BlockAccumulator, BlockErrors, can_be_split
from quadric.geometry.neighbours import redundancy
from quadric.model import Dictionary
from quadric.model.devices import device_of
from quadric.model.fast.products import slices
from quadric.model.objective import density_from_norms, density_norms

DENSE = 0.5
"""A latent is dense if its Hoyer density exceeds this; Gaussian noise has 0.8."""
DEAD = 0.01
"""A latent is dead if its largest |z − b| stays below this share of the median latent's."""
RESAMPLES = 1000
COVERAGE = 0.95
ACTIVE_TOKENS = 1024
"""Tokens that the error by active latents is measured on."""
NUMBERS_AT_ONCE = 2**26
"""Latents that are rebuilt together (256 MiB in float32), since every call computes the kernel again."""
TOKENS_PER_LATENT = 4
"""Fewer basis tokens than this per latent would fit the sample and not the tokens."""
FEWEST_TOKENS, MOST_TOKENS = 8_192, 32_768
"""Tokens that the floor is measured on, half of them for the basis: eight per latent within these bounds."""
SAMPLE_AT_ONCE = 4096
"""Tokens of the sample that are encoded together."""
FLOOR_ITERATIONS = 8
EXTRA_DIRECTIONS = 16
"""Directions carried beside the wanted ones, so that the last of those converge too."""


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


class PositionError(NamedTuple):
    """Mean error of the tokens at a range of positions in their sequence."""

    first: int
    last: int
    error: float
    n_tokens: int


class ActiveError(NamedTuple):
    """Mean error when only the `n_active` largest |z| of every token are kept."""

    n_active: int
    error: float


class Measures(NamedTuple):
    """Measures that need only activations."""

    n_tokens: int
    error: Interval
    density: float
    """Hoyer density over all tokens, averaged over the latents that are not empty."""
    dense_share: float
    """Share of dense latents. Dead and empty latents do not count, because their density is meaningless."""
    dead_share: float
    by_position: list[PositionError]
    n_empty: int | None
    """Latents without a form; None for a kind whose forms are not known, as are the two below."""
    n_copies: int | None
    """Latents whose form is that of an earlier one, |cosine| over 0.95."""
    n_distinct: int | None
    blocks: BlockErrors | None
    """Error of the constant, linear and quadratic part, on the tokens of the floor, drawn by their content; None where
    the dictionary is too large to split."""
    floor: float | None
    """Error of PCA of xxᵀ with as many components as latents; None where there are too few tokens to say."""
    by_active: list[ActiveError]


class ErrorAccumulator:
    """Accumulates errors and latent statistics of one autoencoder over batches of tokens."""

    def __init__(self, autoencoder: Dictionary) -> None:
        self.autoencoder = autoencoder
        self.n_tokens = 0
        self.l1 = self.l2_squared = self.largest = torch.zeros(())
        self.errors: list[Tensor] = []
        self.sequences: list[Tensor] = []
        self.positions: list[Tensor] = []
        self.sample = TokenSample(floor_tokens(autoencoder.n_latents))
        """Prepared tokens for what is not measured on all."""

    @torch.no_grad()
    def add(self, tokens: Float[Tensor, "n d"], sequences: Int[Tensor, " n"], positions: Int[Tensor, " n"]) -> None:
        """Add one batch."""
        autoencoder = self.autoencoder
        prepared = autoencoder.prepare(tokens)
        latents = autoencoder.encode_prepared(prepared)
        offset = autoencoder.density_offset()
        l1, l2_squared = density_norms(latents, offset)
        self.l1, self.l2_squared = self.l1 + l1.cpu().double(), self.l2_squared + l2_squared.cpu().double()
        reach = (latents if offset is None else latents - offset).abs().amax(0).cpu()
        self.largest = torch.maximum(self.largest.to(reach), reach)
        errors = autoencoder.errors_of(prepared, latents).product_space
        self.sample.add(tokens.cpu(), prepared.cpu())
        self.errors.append(errors.cpu().double())
        self.sequences.append(sequences.cpu())
        self.positions.append(positions.cpu())
        self.n_tokens += len(tokens)

    @torch.no_grad()
    def _block_errors(self, tokens: Float[Tensor, "n d"], unit: Float[Tensor, "n d"]) -> BlockErrors | None:
        """Errors by block of the sample, about its own centre."""
        if not can_be_split(self.autoencoder):
            return None
        blocks = BlockAccumulator(self.autoencoder, unit.mean(0))
        for some in torch.split(tokens, SAMPLE_AT_ONCE):
            latents = self.autoencoder.encode_prepared(some)
            blocks.add(some, latents, self.autoencoder.errors_of(some, latents).product_space)
        return blocks.result()

    def measures(self) -> Measures:
        """Measures over all batches so far."""
        if not self.n_tokens:
            raise ValueError("there are no held-out tokens to measure on; use more text or a larger held_out_fraction")
        errors, positions = torch.cat(self.errors), torch.cat(self.positions)
        density = density_from_norms(self.l1, self.l2_squared, self.n_tokens)
        sample = self.sample.kept.to(device_of(self.autoencoder))
        unit, some = sample / self.autoencoder.lengths_of(sample), sample[:ACTIVE_TOKENS]
        alive = self.largest[self.largest > 0]
        limit = DEAD * alive.median() if len(alive) else torch.ones(())
        dead = self.largest < limit
        forms = None if self.autoencoder.forms() is None else redundancy(self.autoencoder)
        empty = torch.zeros_like(dead) if forms is None else forms.empty.to(density.device)
        return Measures(
            n_tokens=self.n_tokens,
            error=bootstrap_interval(errors, torch.cat(self.sequences)),
            density=density[~empty].mean().item() if not bool(empty.all()) else 0.0,
            dense_share=((density > DENSE) & ~dead & ~empty).double().mean().item(),
            dead_share=dead.double().mean().item(),
            by_position=error_by_position(errors, positions),
            n_empty=None if forms is None else int(forms.empty.sum()),
            n_copies=None if forms is None else int(forms.copy.sum()),
            n_distinct=None if forms is None else forms.n_distinct,
            blocks=self._block_errors(sample, unit),
            floor=product_space_floor(unit.float().cpu(), self.autoencoder.n_latents),
            by_active=error_by_active(self.autoencoder, some, self.autoencoder.encode_prepared(some)),
        )


class TokenSample:
    """The tokens of smallest hash: a random sample, which is the same in whichever order they come."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.hashes = torch.empty(0, dtype=torch.int64)
        self.kept = torch.empty(0)
        """The sample as it was prepared, by ascending hash."""

    def add(self, tokens: Float[Tensor, "n d"], prepared: Float[Tensor, "n d"]) -> None:
        """Offer tokens to the sample, which keeps them as they were prepared."""
        hashes = torch.cat([self.hashes, content_hashes(tokens)])
        order = hashes.argsort(stable=True)[: self.size]
        kept = torch.cat([self.kept, prepared]) if len(self.kept) else prepared
        self.hashes, self.kept = hashes[order], kept[order]


def content_hashes(rows: Float[Tensor, "n d"], seed: int = 0) -> Int[Tensor, " n"]:
    """A hash of the values of every row: equal for equal rows, and as good as random for others."""
    generator = torch.Generator().manual_seed(seed)
    odd = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=generator) * 2 + 1
    bits = (rows.float() + 0.0).contiguous().view(torch.int32).long()  # + 0.0: −0 and 0 are the same number
    sums = (bits * odd.to(bits.device)).sum(-1)  # modulo 2⁶⁴
    mixed = (sums ^ (sums >> 32 & 2**32 - 1)) * -7046029254386353131  # the golden ratio, as in splitmix64
    return mixed ^ (mixed >> 29 & 2**35 - 1)  # & because >> repeats the sign


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


def student_interval(values: Sequence[float]) -> Interval:
    """Mean and its Student's t interval, assuming normally distributed values; a single value has no width."""
    from scipy.stats import t

    if len(values) == 1:
        return Interval(values[0], values[0], values[0])
    half = float(t.ppf((1 + COVERAGE) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Interval(mean(values), mean(values) - half, mean(values) + half)


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


@torch.no_grad()
def error_by_active(
    autoencoder: Dictionary, tokens: Float[Tensor, "n d"], latents: Float[Tensor, "n k"]
) -> list[ActiveError]:
    """The curve at 1, 2, 4, … latents and at all of them, for prepared tokens.

    X̂ = Σ_{i kept} z_i W_i for a bilinear dictionary, x̂x̂ᵀ of the kept directions for a linear one. Beyond the latents
    that a linear dictionary has active, its curve is flat. A dictionary that does not rebuild from given latents has
    one point, at all of them.
    """
    if not autoencoder.rebuilds_from_latents:
        return [ActiveError(autoencoder.n_latents, autoencoder.errors_of(tokens, latents).product_space.mean().item())]
    order = latents.abs().argsort(dim=-1, descending=True)
    powers = [2**power for power in range(autoencoder.n_latents.bit_length())]
    counts = list(dict.fromkeys([*(each for each in powers if each < autoencoder.n_latents), autoencoder.n_latents]))
    found: list[ActiveError] = []
    for some in (counts[each] for each in slices(len(counts), _points_at_once(autoencoder, latents))):
        kept = torch.cat([_strongest_alone(latents, order[:, :count]) for count in some])
        errors = autoencoder.errors_of(tokens.repeat(len(some), 1), kept).product_space
        found += map(ActiveError, some, errors.view(len(some), -1).mean(1).tolist())
    return found


def _points_at_once(autoencoder: Dictionary, latents: Float[Tensor, "n k"]) -> int:
    """How many points of the curve share one kernel; one where none is formed, because it would be too large."""
    if not autoencoder.settings.has_kernel:
        return 1
    return max(1, NUMBERS_AT_ONCE // max(1, latents.numel()))


def _strongest_alone(latents: Float[Tensor, "n k"], indices: Int[Tensor, "n c"]) -> Float[Tensor, "n k"]:
    return torch.zeros_like(latents).scatter(1, indices, latents.gather(1, indices))


class ProductSpaceBasis(NamedTuple):
    """The leading principal components of xxᵀ, as combinations of sample tokens."""

    sample: Float[Tensor, "n d"]
    combinations: Float[Tensor, "n k"]
    """Column i makes Σ_a V_ai x_a x_aᵀ the i-th component, with norm one."""

    def error(self, tokens: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
        """‖X̂ − X‖² of unit tokens, rebuilt from their components."""
        found = (tokens @ self.sample.mT).square() @ self.combinations
        return 1 - found.square().sum(-1)


def product_space_basis(sample: Float[Tensor, "n d"], n_components: int) -> ProductSpaceBasis:
    """The leading components of the unit tokens in the sample, by subspace iteration on their Gram matrix."""
    size = min(n_components, len(sample))
    gram = (sample @ sample.mT).square()
    width = min(size + EXTRA_DIRECTIONS, len(sample))
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(len(sample), width, generator=generator).to(gram)).Q
    for _ in range(FLOOR_ITERATIONS):
        basis = torch.linalg.qr(gram @ basis).Q
    values, rotation = torch.linalg.eigh(basis.mT @ gram @ basis)
    leading = values[-size:].clamp_min(torch.finfo(values.dtype).tiny)
    kept = leading > 1e-6 * leading[-1]  # beyond the rank of the sample there is nothing but rounding
    return ProductSpaceBasis(sample, (basis @ rotation[:, -size:])[:, kept] / leading[kept].sqrt())


def floor_tokens(n_latents: int) -> int:
    """How many tokens the floor of a dictionary is measured on."""
    return min(max(2 * TOKENS_PER_LATENT * n_latents, FEWEST_TOKENS), MOST_TOKENS)


def product_space_floor(tokens: Float[Tensor, "n d"], n_latents: int) -> float | None:
    """The error of PCA with as many components as latents: basis from every second unit token, error on the others.

    None where there are too few tokens to say: at least four basis tokens per latent are needed.
    """
    tokens = tokens[: floor_tokens(n_latents)]
    sample, rest = tokens[::2], tokens[1::2]
    if len(sample) < TOKENS_PER_LATENT * n_latents or not len(rest):
        return None
    return product_space_basis(sample, n_latents).error(rest).mean().item()
