"""The prior as a constraint on C, the k×h matrix that mixes atoms into latents, and how C is stored.

    atomic      C = I                            Identity
    quadratic   C dense                          Dense
    composite   only the globally largest |C|    Masked while the mask is thick, then Sparse

Every storage is immutable: values are trained, but which entries may differ from zero never changes.
`with_density` returns a new mixing instead, and the autoencoder swaps its module.
"""

from abc import ABC, abstractmethod
from math import sqrt
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from quadric.model.products import CsrPattern, csr_matmul, csr_pattern, dense_mix
from quadric.model.settings import Initialization

SPARSE_BELOW = 0.01
"""Density below which C is stored by its entries. Sparse products win from about 10 % down
(docs/decisions.md), but only dense storage lets an entry come back, so the switch waits until they are four
times as fast."""
LARGEST_DENSE = 2**30
"""Most entries of a C that is initialized whole (4 GiB in float32, and several times that in training)."""
SCATTERED_SHARE = 0.1
"""Norm of the weights of a sparse start on atoms that are not the latent's own, next to those that are."""


class Row(NamedTuple):
    """The atoms that feed one latent, and their weights."""

    atoms: Int[Tensor, " s"]
    weights: Float[Tensor, " s"]


class Entries(NamedTuple):
    """Row, column and value of every entry of C, sorted by row and then by column."""

    rows: Int[Tensor, " nnz"]
    columns: Int[Tensor, " nnz"]
    values: Float[Tensor, " nnz"]


class Mixing(nn.Module, ABC):
    """C in one storage. The products below are their definition; a storage overrides those it has a faster way for."""

    used_atoms: Tensor | None
    """Atoms that at least one latent uses; None for all. An unused atom changes no latent and gets no gradient."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("used_atoms", None, persistent=False)

    is_dense: ClassVar[bool] = False
    """Whether every latent may use every atom."""
    chooses_atoms: ClassVar[bool] = False
    """Whether which atoms a latent uses is learned."""
    has_weights: ClassVar[bool] = True
    """Whether entries may differ from 1."""

    @property
    @abstractmethod
    def n_entries(self) -> int:
        """Number of entries of C that may differ from zero."""

    @abstractmethod
    def matrix(self) -> Float[Tensor, "k h"]:
        """C as a dense matrix, differentiable."""

    @abstractmethod
    def row(self, latent: int) -> Row:
        """Support and weights of one latent."""

    @abstractmethod
    def entries(self) -> Entries:
        """All entries that may differ from zero, without gradient."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are saved with an autoencoder, by name."""

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        """From atoms to latents: y ↦ yCᵀ."""
        return dense_mix(self.matrix().to(atoms.dtype), atoms)

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        """From latents to atoms: z ↦ zC."""
        return latents @ self.matrix().to(latents.dtype)

    def extra_repr(self) -> str:
        return f"shape={self.shape}, n_entries={self.n_entries}"


class Identity(Mixing):
    """C = I: each latent is one atom."""

    has_weights = False

    def __init__(self, n_latents: int) -> None:
        super().__init__((n_latents, n_latents))

    @property
    def n_entries(self) -> int:
        return self.shape[0]

    def matrix(self) -> Float[Tensor, "k h"]:
        return torch.eye(self.shape[0])

    def row(self, latent: int) -> Row:
        return Row(torch.tensor([latent]), torch.ones(1))

    def entries(self) -> Entries:
        numbers = torch.arange(self.shape[0])
        return Entries(numbers, numbers, torch.ones(self.shape[0]))

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n h"]:
        return atoms

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        return latents


class Dense(Mixing):
    """C dense: each latent is any mixture of all atoms."""

    is_dense = True

    def __init__(self, weight: Float[Tensor, "k h"]) -> None:
        super().__init__((weight.shape[0], weight.shape[1]))
        self.weight = nn.Parameter(weight)

    @property
    def n_entries(self) -> int:
        return self.weight.numel()

    def matrix(self) -> Float[Tensor, "k h"]:
        return self.weight

    def row(self, latent: int) -> Row:
        weights = self.weight[latent].detach()
        return Row(torch.arange(len(weights), device=weights.device), weights)

    def entries(self) -> Entries:
        rows, columns = self.weight.detach().nonzero(as_tuple=True)
        return Entries(rows, columns, self.weight.detach()[rows, columns])

    def tensors(self) -> dict[str, Tensor]:
        return {"mixing": self.weight}


class Masked(Mixing):
    """Composite C as a dense matrix under a mask.

    Masked entries keep their values, so a later, different mask can bring them back. A weight that is already a
    parameter stays the same parameter, so that its optimizer need not follow a change of mask.
    """

    chooses_atoms = True
    mask: Tensor

    def __init__(self, weight: Float[Tensor, "k h"], mask: Bool[Tensor, "k h"] | None = None) -> None:
        super().__init__((weight.shape[0], weight.shape[1]))
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool) if mask is None else mask)

    @property
    def n_entries(self) -> int:
        return int(self.mask.sum())

    def matrix(self) -> Float[Tensor, "k h"]:
        return self.weight * self.mask

    def row(self, latent: int) -> Row:
        atoms = self.mask[latent].nonzero()[:, 0]
        return Row(atoms, self.weight[latent, atoms].detach())

    def entries(self) -> Entries:
        rows, columns = self.mask.nonzero(as_tuple=True)
        return Entries(rows, columns, self.weight.detach()[rows, columns])

    def tensors(self) -> dict[str, Tensor]:
        return _saved(self.entries())


class Sparse(Mixing):
    """Composite C stored by its entries, as CSR; entries that were dropped are gone.

    At a density of 0.1 % and two atoms per latent, about one atom in seven is unused before training. Leaving unused
    atoms out of the products skips a quarter of G.
    """

    chooses_atoms = True
    used_atoms: Tensor
    used_columns: Tensor
    used_column_starts: Tensor

    def __init__(self, entries: Entries, shape: tuple[int, int]) -> None:
        super().__init__(shape)
        self.values = nn.Parameter(entries.values.detach().clone())
        pattern = csr_pattern(entries.rows, entries.columns, shape)
        for name in CsrPattern._fields[:-1]:
            self.register_buffer(name, getattr(pattern, name))
        self._register_used_atoms()
        self.register_load_state_dict_post_hook(_find_used_atoms_again)  # type: ignore[no-untyped-call]

    def _register_used_atoms(self) -> None:
        """Number the columns that have entries consecutively; their order, and so the order of entries, stays."""
        pattern = self.pattern
        atoms = pattern.column_starts.diff().nonzero()[:, 0]
        numbers = torch.zeros(self.shape[1], dtype=torch.long, device=atoms.device)
        numbers[atoms] = torch.arange(len(atoms), device=atoms.device)
        starts = torch.cat([pattern.column_starts[atoms], pattern.column_starts[-1:]])
        # Not saved: they follow from the pattern. Buffers, so that they move between devices with the module.
        self.register_buffer("used_atoms", atoms, persistent=False)
        self.register_buffer("used_columns", numbers[pattern.columns], persistent=False)
        self.register_buffer("used_column_starts", starts, persistent=False)

    @property
    def pattern(self) -> CsrPattern:
        """Positions of the entries."""
        positions = {name: getattr(self, name) for name in CsrPattern._fields[:-1]}
        return CsrPattern(**positions, shape=self.shape)

    @property
    def used_pattern(self) -> CsrPattern:
        """Positions of the entries among the used atoms only."""
        return self.pattern._replace(
            columns=self.used_columns,
            column_starts=self.used_column_starts,
            shape=(self.shape[0], len(self.used_atoms)),
        )

    @property
    def n_entries(self) -> int:
        return len(self.values)

    def matrix(self) -> Float[Tensor, "k h"]:
        rows, columns, _ = self.entries()
        return self.values.new_zeros(self.shape).index_put((rows, columns), self.values)

    def row(self, latent: int) -> Row:
        pattern = self.pattern
        start, end = pattern.row_starts[latent : latent + 2].tolist()
        return Row(pattern.columns[start:end], self.values[start:end].detach())

    def entries(self) -> Entries:
        pattern = self.pattern
        counts = pattern.row_starts.diff()
        rows = torch.repeat_interleave(torch.arange(self.shape[0], device=counts.device), counts)
        return Entries(rows, pattern.columns, self.values.detach())

    def tensors(self) -> dict[str, Tensor]:
        return _saved(self.entries())

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        return csr_matmul(self.values.to(atoms.dtype), self.pattern, atoms.mT).mT

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        pattern = self.pattern
        return csr_matmul(self.values.to(latents.dtype)[pattern.by_column], pattern.transposed(), latents.mT).mT


Composite = Masked | Sparse
"""The two storages of a composite C."""


class Thinned(NamedTuple):
    """A composite C after its density was changed."""

    mixing: Composite
    kept: Int[Tensor, " kept"] | None
    """Where entries of a sparse C were dropped: positions, in the old order, of those that stay."""


def check_density(
    density: object, name: str = "mixing density", usual: str = "the paper keeps 0.001 of the entries"
) -> None:
    """Refuse a share outside (0, 1]."""
    if not isinstance(density, int | float) or isinstance(density, bool) or not 0 < density <= 1:
        raise ValueError(f"{name} {density!r} is outside (0, 1]; {usual}")


def with_density(mixing: Composite, density: float) -> Thinned:
    """The mixing with only the globally largest |C|, exactly round(density · k · h) of them and at least one."""
    n_kept = max(1, round(density * mixing.shape[0] * mixing.shape[1]))
    return _thinned_entries(mixing, n_kept) if isinstance(mixing, Sparse) else _masked_again(mixing, n_kept)


def _masked_again(mixing: Masked, n_kept: int) -> Thinned:
    weight = mixing.weight.detach()
    mask = torch.zeros_like(mixing.mask)
    mask.view(-1)[weight.abs().view(-1).topk(n_kept, sorted=False).indices] = True
    masked = Masked(mixing.weight, mask)
    is_thin = n_kept < SPARSE_BELOW * weight.numel()
    return Thinned(Sparse(masked.entries(), masked.shape) if is_thin else masked, None)


def _thinned_entries(mixing: Sparse, n_kept: int) -> Thinned:
    rows, columns, values = mixing.entries()
    if n_kept > len(values):
        size = mixing.shape[0] * mixing.shape[1]
        raise ValueError(
            f"density {n_kept / size:.4g} exceeds the current {len(values) / size:.4g}, and entries already "
            "dropped from a sparse mixing cannot come back; give a smaller density or start a new autoencoder"
        )
    if n_kept == len(values):
        return Thinned(mixing, None)
    kept = values.abs().topk(n_kept, sorted=False).indices.sort().values
    return Thinned(Sparse(Entries(rows[kept], columns[kept], values[kept]), mixing.shape), kept)


def scattered_mixing(
    shape: tuple[int, int], density: float, row_norm: float, generator: torch.Generator, n_own: int | None = None
) -> Composite:
    """A random composite C that is made by its entries, so that no k×h matrix is needed.

    Latents have equally many atoms, give or take one. Some are the latent's own, with equal weights of random sign; the
    rest are scattered over the other atoms, with small weights. Latents that shared all of their atoms from the start
    would train to a higher loss (benchmarks/results/run.md).

    Args:
        shape: (k, h).
        density: share of entries, of which there are exactly round(density · k · h) and at least one.
        row_norm: norm of every row that has entries.
        generator: of the positions and values.
        n_own: atoms of its own of every latent; by default h/k, and no more than it has.

    Returns:
        C, in the storage that suits the number of entries.
    """
    (n_rows, n_columns), n_entries = shape, max(1, round(density * shape[0] * shape[1]))
    starts = torch.arange(n_rows + 1) * n_entries // n_rows
    n_own = min(n_columns // n_rows if n_own is None else n_own, int(starts.diff().min()))
    own = torch.arange(n_rows * n_own).view(n_rows, n_own)
    own_weights = torch.randint(2, own.shape, generator=generator).mul(2.0).sub(1) / max(1, n_own) ** 0.5
    starts -= n_own * torch.arange(n_rows + 1)
    rows = torch.repeat_interleave(torch.arange(n_rows), starts.diff())
    # Counted from behind a latent's own atoms, round to where they begin: never one of them.
    columns = _scattered_columns(starts, n_columns - n_own, generator).add_((rows + 1) * n_own).remainder_(n_columns)
    weights = torch.randn(len(rows), generator=generator)
    weights *= SCATTERED_SHARE / _row_norms(rows, weights, n_rows)[rows]
    entries = _sorted_entries(
        torch.cat([torch.arange(n_rows).repeat_interleave(n_own), rows]),
        torch.cat([own.flatten(), columns]),
        torch.cat([own_weights.flatten(), weights]),
        n_columns,
    )
    # A latent without atoms of its own has scattered ones alone, which get the whole norm here.
    scaled = entries.values * (row_norm / _row_norms(entries.rows, entries.values, n_rows)[entries.rows])
    return mixing_from_entries(entries._replace(values=scaled), shape)


def _row_norms(rows: Tensor, values: Tensor, n_rows: int) -> Tensor:
    return torch.zeros(n_rows).index_add_(0, rows, values.square()).sqrt_()


def _sorted_entries(rows: Tensor, columns: Tensor, values: Tensor, n_columns: int) -> Entries:
    order = (rows * n_columns + columns).argsort()
    return Entries(rows[order], columns[order], values[order])


def _scattered_columns(
    starts: Int[Tensor, " starts"], n_columns: int, generator: torch.Generator
) -> Int[Tensor, " entries"]:
    """One random permutation of all columns after the other, cut into rows of distinct columns.

    A row may begin in one permutation and end in the next. The next one then begins with columns that the row lacks.
    """
    n_entries = int(starts[-1])
    columns = torch.empty(n_entries, dtype=torch.long)
    for begin in range(0, n_entries, max(1, n_columns)):  # of a latent that owns all atoms there are no others
        permutation = torch.randperm(n_columns, generator=generator)
        cut = int(torch.searchsorted(starts, begin, right=True))
        begun = columns[int(starts[cut - 1]) : begin]
        if len(begun):
            n_missing = int(starts[cut]) - begin
            taken = torch.isin(permutation, begun)
            first = (~taken).nonzero()[:n_missing, 0]
            is_first = torch.zeros(n_columns, dtype=torch.bool).index_fill_(0, first, True)
            permutation = torch.cat([permutation[first], permutation[~is_first]])
        columns[begin : begin + n_columns] = permutation[: n_entries - begin]
    return columns


def mixing_from_entries(entries: Entries, shape: tuple[int, int]) -> Composite:
    """A composite C with the given entries, in the storage that suits their number."""
    rows, columns, values = entries
    positions = rows * shape[1] + columns
    inside = bool(((rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])).all())
    if not inside or not bool((positions.diff() > 0).all()):
        raise ValueError(
            f"the entries of the mixing are not distinct, sorted positions in a {shape} matrix; save it again"
        )
    if len(values) < SPARSE_BELOW * shape[0] * shape[1]:
        return Sparse(entries, shape)
    mask = torch.zeros(shape, dtype=torch.bool, device=values.device)
    mask[rows, columns] = True
    return Masked(values.new_zeros(shape).index_put((rows, columns), values), mask)


def mixing_from_state(state: dict[str, Tensor], shape: tuple[int, int]) -> Composite:
    """A composite C in the storage whose state_dict this is."""
    if "values" not in state:
        return Masked(state["weight"].clone(), state["mask"].clone())
    counts = state["row_starts"].diff()
    rows = torch.repeat_interleave(torch.arange(shape[0], device=counts.device), counts)
    return Sparse(Entries(rows, state["columns"], state["values"]), shape)


def _saved(entries: Entries) -> dict[str, Tensor]:
    return dict(zip(("mixing_rows", "mixing_columns", "mixing_values"), entries, strict=True))


def _find_used_atoms_again(mixing: Sparse, _: object) -> None:
    """After load_state_dict copied another pattern into the buffers."""
    mixing._register_used_atoms()


def initial_dense(shape: tuple[int, int], init: Initialization, generator: torch.Generator) -> Dense:
    """A random dense C."""
    _check_fits(shape, "choose the composite prior")
    return Dense(initial_matrix(init, shape, generator))


def initial_composite(
    shape: tuple[int, int], density: float, init: Initialization, generator: torch.Generator
) -> Composite:
    """A random composite C; below full density it is made by its entries, so that no k×h matrix is needed."""
    if density < 1:
        return scattered_mixing(shape, density, _expected_row_norm(init, shape), generator)
    _check_fits(shape, f"let C start with fewer entries (initial_density={min(1.0, 64 / shape[1]):.1g} is about 64 "
                       "atoms per latent)")  # fmt: skip
    return Masked(initial_matrix(init, shape, generator))


def stored_composite(tensors: dict[str, Tensor], shape: tuple[int, int]) -> Composite:
    """The composite C whose `tensors` these are."""
    entries = Entries(tensors["mixing_rows"], tensors["mixing_columns"], tensors["mixing_values"])
    return mixing_from_entries(entries, shape)


def initial_matrix(init: Initialization, shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "r c"]:
    """Random numbers for L, R or C."""
    weight = torch.empty(shape)
    if init == "xavier":
        return nn.init.xavier_uniform_(weight, generator=generator)
    return nn.init.orthogonal_(weight, generator=generator)


def _expected_row_norm(init: Initialization, shape: tuple[int, int]) -> float:
    """Root mean square norm of a row of `initial_matrix`."""
    rows, columns = shape
    return sqrt(columns / max(rows, columns) if init == "orthogonal" else 2 * columns / (rows + columns))


def _check_fits(shape: tuple[int, int], remedy: str) -> None:
    k, h = shape
    if k * h > LARGEST_DENSE:
        raise ValueError(
            f"all entries of C at n_latents={k} and n_hidden={h} take {4 * k * h / 2**30:.0f} GiB, and several times "
            f"that in training; {remedy}"
        )
