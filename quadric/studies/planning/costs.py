"""The cost of one training step, predicted from its sizes: FLOPs and memory, one formula for each way to compute.

Only matrix products are counted, two FLOPs per multiplication, and products with a sparse C by its entries. Predictions
are within 15 % of the FLOPs that are counted and within 30 % of the memory that is measured.

n tokens, w coordinates that the forms read, h atoms, u atoms that some latent uses, k latents, e entries of C
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from quadric.model.bilinear import mixing_density_at
from quadric.model.fast.kernel import count_upper, n_kept_overlaps
from quadric.model.fast.large import SAMPLED_ENTRIES
from quadric.model.fast.latents import TOKENS_AT_ONCE, keeps_activations
from quadric.model.fast.lifted import NUMBERS_AT_ONCE, product_width
from quadric.model.fast.newton_schulz import MOST_PAIRS, ROUNDS
from quadric.model.fast.products import MOST_KEPT, row_blocks
from quadric.model.fast.step import DEFAULT_BLOCK, ErrorPath, error_path
from quadric.model.mixing import SPARSE_BELOW
from quadric.model.settings import Bilinear, Composite, Linear, Quadratic, Settings
from quadric.model.terms import Term

FLOAT = 4
ALLOCATOR_OVERHEAD = 1.2
"""Measured: a step with sparse C allocates pieces of a few mebibytes, which malloc keeps after they are freed."""

Flops = dict[str, float]
"""FLOPs of one step and process, by what they are spent on: latents, kernel (G and K), error and other terms of the
loss, optimizer."""


@dataclass(frozen=True, kw_only=True)
class FormsStep:
    """A step of a dictionary of quadratic forms."""

    width: int
    n_tokens: int
    """Of one process."""
    n_latents: int
    n_hidden: int
    storage: Literal["identity", "dense", "sparse"]
    """Of C."""
    n_entries: int
    symmetric: bool = True
    same_factors: bool = False
    top: int | None = None
    """Latents that reconstruct each token; None for all."""
    terms: tuple[str, ...] = ()
    """Names of the terms of the loss."""
    n_processes: int = 1

    @property
    def n_used(self) -> int:
        """Atoms with an entry, if entries were placed at random; training tends to leave fewer."""
        if self.storage != "sparse":
            return self.n_hidden
        empty: float = (1 - self.n_entries / (self.n_latents * self.n_hidden)) ** self.n_latents
        return max(1, round(self.n_hidden * (1 - empty)))

    @property
    def path(self) -> ErrorPath:
        """How the error is computed."""
        return error_path(
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            width=self.width,
            is_sparse=self.storage != "dense",
            symmetric=self.symmetric,
            top=self.top,
            entries=self.n_entries,
        )

    @property
    def computes_activations_twice(self) -> bool:
        return self.storage == "sparse" and not keeps_activations(self.n_tokens, self.n_used)

    def flops(self) -> Flops:
        """Forward, backward and update, of the busiest process: they share the kernel and the optimizer's work."""
        n, w, u, n_factors = self.n_tokens, self.width, self.n_used, 1 if self.same_factors else 2
        mixed = 0 if self.storage == "identity" else 6 * n * self.n_entries
        encoded = (6 if self.computes_activations_twice else 4) * n_factors * n * u * w
        kernel = self._gram_flops(u) + self._kernel_flops() if self.path == "kernel" else 0.0
        error = {"kernel": self._kernel_error, "blocked": self._blocked_error, "lifted": self._lifted_error}[
            self.path
        ]()
        if "mean" in self.terms:
            error += 2 * n * w**2 + mixed / n + 6 * u * w**2
        updated = (n_factors if self.n_processes == 1 else 1) * muon_flops(self.n_hidden, w)
        if self.storage == "dense":
            is_shared = len(row_blocks(min(self.n_latents, self.n_hidden))) > 1
            updated += muon_flops(self.n_latents, self.n_hidden) / (self.n_processes if is_shared else 1)
        return {
            "latents": float(encoded + mixed),
            "kernel": kernel / self.n_processes,
            "error": error,
            "optimizer": updated,
        }

    def _gram_flops(self, n_atoms: int) -> float:
        """G with its gradients: upper halves where a product is symmetric, some of them computed twice."""
        half = half_share(n_atoms)
        if self.same_factors:
            return 2 * self.width * n_atoms**2 * (1 + 2 * half)
        n_products = 4 if self.symmetric else 2
        n_again = 0 if n_kept_overlaps(n_atoms, self.symmetric) == 4 else 2
        return 2 * self.width * n_atoms**2 * (n_products + (n_products + n_again) * half)

    def _kernel_flops(self) -> float:
        """K = CGCᵀ with its gradients."""
        k, u = self.n_latents, self.n_used
        if self.storage == "dense":
            return 2 * k * u**2 * (1 + half_share(u)) + 2 * k**2 * u * (2 + half_share(k))
        return float(2 * self.n_entries * (2 * u + 3 * k)) if self.storage == "sparse" else 0.0

    def _kernel_error(self) -> float:
        return 2 * self.n_tokens * self.n_latents**2 * (1 + half_share(self.n_latents))

    def _blocked_error(self) -> float:
        """Blocks of G, made twice and differentiated; w = Cᵀz and both of its gradients."""
        n, u = self.n_tokens, self.n_used
        upper = u * (u + min(u, DEFAULT_BLOCK)) / 2
        unmixed = 0 if self.storage == "identity" else 6 * n * self.n_entries
        return (32 if self.symmetric else 16) * upper * self.width + 2 * n * (u**2 + upper) + unmixed

    def _lifted_error(self) -> float:
        """Forms and what they reconstruct, with gradients; norms of the forms, and the overlap of some of them."""
        n, k, w, e = self.n_tokens, self.n_latents, self.width, self.n_entries
        forms = 2 * e * w**2
        if self.top is None:
            error = float(6 * n * k * product_width(w, self.symmetric) + 4 * forms)
        else:
            error = 3 * forms * n * self.top / k + 2 * e * (e / k) * ((4 if self.symmetric else 2) * w + 1)
        if "overlap" in self.terms:
            atoms = min(SAMPLED_ENTRIES, self.n_used)
            error += self._gram_flops(atoms) + 2 * SAMPLED_ENTRIES * (2 * atoms + 3 * SAMPLED_ENTRIES * k / e)
        return error

    @property
    def checkpoint_bytes(self) -> int:
        """Parameters and momenta; dense C with its mask, sparse C with positions in int64."""
        mixing = {"identity": 0.0, "dense": 2.25, "sparse": 10.0}[self.storage]
        factors = (2 if self.same_factors else 4) * self.n_hidden * self.width
        return round(FLOAT * (factors + mixing * self.n_entries))

    @property
    def state_bytes(self) -> int:
        """Held between steps: what a checkpoint has, and the pairs of entries that SparseMuon works on."""
        n_pairs = self.n_entries + self.n_entries**2 // self.n_hidden
        has_pairs = self.storage == "sparse" and n_pairs <= MOST_PAIRS
        return self.checkpoint_bytes + (FLOAT * (4 * n_pairs + 6 * self.n_entries) if has_pairs else 0)

    @property
    def working_bytes(self) -> int:
        """The most that a step holds besides."""
        loss = {"kernel": self._kernel_numbers, "blocked": self._blocked_numbers, "lifted": self._lifted_numbers}
        numbers = max(loss[self.path](), self._optimizer_numbers()) + 2 * self.n_tokens * self.width
        return round(FLOAT * numbers * (ALLOCATOR_OVERHEAD if self.storage == "sparse" else 1))

    def _kernel_numbers(self) -> float:
        """The most of: K being made, the gradient of the error, and that of K."""
        n, k, u = self.n_tokens, self.n_latents, self.n_used
        half = half_share(u) / self.n_processes
        overlaps = 0 if self.same_factors else n_kept_overlaps(u, self.symmetric) * half * u**2
        gram = u**2 if self.n_processes == 1 else half * u**2 + 2 * k**2
        mixed = 0 if self.storage == "identity" else k * u / self.n_processes  # CG
        masked = k * u if self.storage == "dense" else 0
        kept = 0 if self.computes_activations_twice else (2 if self.storage == "sparse" else 3) * n * u
        latents = (4 if self.storage == "identity" else 5) * n * k + (1.25 * n * k if self.top is not None else 0)
        again = 4 * min(n, TOKENS_AT_ONCE) * u if self.storage == "sparse" else 0
        tokens = kept + max(latents, n * k + again) + k**2 * (2 if "overlap" in self.terms else 1)
        backward = mixed + gram + (2 * k**2 if mixed else 0) + 2 * u * self.width
        return overlaps + mixed + max(gram + mixed, masked + tokens, backward)

    def _blocked_numbers(self) -> float:
        n, k, u = self.n_tokens, self.n_latents, self.n_used
        mixed = 0 if self.storage == "identity" else n * u + 2 * n * k + (k * u if self.storage == "dense" else 0)
        return 7 * n * u + mixed + 8 * min(u, DEFAULT_BLOCK) ** 2 + 2 * u * self.width

    def _lifted_numbers(self) -> float:
        """The most of: the gradient of the error, and that of the latents."""
        n, k, w, u = self.n_tokens, self.n_latents, self.width, self.n_used
        rebuilt = 3 * n * product_width(w, self.symmetric)
        if self.top is not None:
            rebuilt = n * w**2 if n * w**2 < MOST_KEPT else 0
        sample = 3 * min(SAMPLED_ENTRIES, u) ** 2 if "overlap" in self.terms else 0
        again = (4 if self.storage == "sparse" else 3) * min(n, TOKENS_AT_ONCE) * u
        return n * k + max(2 * n * k + rebuilt + 4 * NUMBERS_AT_ONCE + 4 * u * w + sample, again + 8 * u * w)

    def _optimizer_numbers(self) -> float:
        """All gradients; and of one matrix the momentum, the scaled matrix, the result and small ones."""
        k, h, w = self.n_latents, self.n_hidden, self.width
        factor = (3 if self.n_processes == 1 else 5) * h * w + 5 * min(h, w) ** 2
        mixing = 4 * k * h + 5 * min(k, h) ** 2 if self.storage == "dense" else 0
        return (1 if self.same_factors else 2) * h * w + max(factor, mixing)


@dataclass(frozen=True, kw_only=True)
class LinearStep:
    """A step of a linear dictionary: an encoder, a decoder, and activations between them."""

    width: int
    n_tokens: int
    n_latents: int
    n_processes: int = 1

    def flops(self) -> Flops:
        """Two products forward and four backward; the optimizer updates both matrices."""
        n, w, k = self.n_tokens, self.width, self.n_latents
        updated = (2 if self.n_processes == 1 else 1) * muon_flops(k, w)
        return {"latents": 6.0 * n * k * w, "kernel": 0.0, "error": 6.0 * n * k * w, "optimizer": updated}

    @property
    def checkpoint_bytes(self) -> int:
        return FLOAT * 4 * self.n_latents * self.width

    @property
    def state_bytes(self) -> int:
        return self.checkpoint_bytes

    @property
    def working_bytes(self) -> int:
        """Activations before and after the gate, with gradients; or gradients and what the optimizer holds."""
        n, w, k = self.n_tokens, self.width, self.n_latents
        return FLOAT * max(4 * n * k + 6 * n * w, 5 * k * w + 5 * min(k, w) ** 2)


StepSize = FormsStep | LinearStep


class Phase(NamedTuple):
    """Consecutive steps with the same storage of C; the cost is that of the most expensive one."""

    name: str
    first_step: int
    last_step: int
    size: StepSize


def phases(
    settings: Settings, loss: Iterable[Term], d_model: int, n_tokens: int, steps: int, n_processes: int = 1
) -> list[Phase]:
    """The phases of a run: a composite dictionary trains with dense C first, or with more entries than it keeps if C
    starts sparse; the others have one phase.

    Args:
        settings: of the dictionary.
        loss: its terms.
        d_model: width of the activations.
        n_tokens: tokens per batch and process.
        steps: of the run.
        n_processes: that share every step.

    Returns:
        One or two phases, in order; none for a kind from outside, whose cost is not known.
    """
    sizes = {"n_tokens": n_tokens, "n_latents": settings.n_latents, "n_processes": n_processes}
    if isinstance(settings, Linear):
        return [Phase("whole run", 0, steps - 1, LinearStep(width=d_model, **sizes))]
    if not isinstance(settings, Bilinear):
        return []
    terms, is_mixed = {term.name: term for term in loss}, isinstance(settings, Composite | Quadratic)
    top = getattr(terms.get("error"), "top", None)
    whole = FormsStep(
        width=d_model + (settings.lens == "affine"),  # the constant is one more coordinate
        n_hidden=settings.atoms,
        storage="dense" if is_mixed else "identity",
        n_entries=settings.n_latents * (settings.atoms if is_mixed else 1),
        symmetric=settings.symmetric,
        same_factors=settings.same_factors,
        top=None if top is None or top >= settings.n_latents else top,
        terms=tuple(terms),
        **sizes,
    )
    if isinstance(settings, Composite):
        return _annealed(settings, whole, steps)
    return [Phase("whole run", 0, steps - 1, whole)]


def _annealed(settings: Composite, whole: FormsStep, steps: int) -> list[Phase]:
    """The phases of a composite dictionary, whose C loses entries."""
    start, target = settings.density_at_start, settings.mixing_density
    densities = (mixing_density_at(step, steps, target, start) for step in range(steps))
    kept = [max(1, round(density * whole.n_entries)) for density in densities]
    n_dense = sum(entries >= SPARSE_BELOW * whole.n_entries for entries in kept)
    n_before = n_dense or sum(entries > kept[-1] for entries in kept)
    sparse = [replace(whole, storage="sparse", n_entries=entries) for entries in (kept[0], kept[-1])]
    before = (
        Phase("dense C", 0, n_before - 1, whole) if n_dense else Phase("sparse C, annealed", 0, n_before - 1, sparse[0])
    )
    after = Phase("sparse C", n_before, steps - 1, sparse[1])
    return [phase for phase in (before, after) if phase.first_step <= phase.last_step]


def half_share(size: int) -> float:
    """Share of a symmetric product that is computed when only blocks on and above the diagonal are."""
    return float(count_upper(row_blocks(size), size) / (size * size))


def muon_flops(rows: int, columns: int) -> float:
    """FLOPs of Muon: two passes over the matrix, and the rounds on its small side."""
    small, large = min(rows, columns), max(rows, columns)
    n_small = ROUNDS + 3 * (ROUNDS - 1)
    return float(2 * small**2 * large + 2 * half_share(small) * small**2 * (large + n_small * small))
