"""The prior as a constraint on C, the k×h matrix that mixes atoms into latents, and how C is stored.

    atomic      C = I                            Identity
    quadratic   C dense                          Dense
    composite   only the globally largest |C|    Masked while the mask is thick, then `fast.sparse.Sparse`

Every storage is immutable: values are trained, but which entries may differ from zero never changes.
`with_density` returns a new mixing instead, and the autoencoder swaps its module.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from quadric.model.settings import Initialization

if TYPE_CHECKING:
    from quadric.model.fast.products import CsrPattern
    from quadric.model.fast.sparse import Sparse

SPARSE_BELOW = 0.01
"""Density below which C is stored by its entries. Sparse products win from about 10 % down
(docs/decisions.md), but only dense storage lets an entry come back, so the switch waits until they are four
times as fast."""
LARGEST_DENSE = 2**30
"""Most entries of a C that is initialized whole (4 GiB in float32, and several times that in training)."""


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
    def pattern(self) -> "CsrPattern | None":
        """Where the entries are, of a C that is stored by them."""
        return None

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
        return (self.matrix().to(atoms.dtype) @ atoms.mT).mT

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


class Thinned(NamedTuple):
    """A composite C after its density was changed."""

    mixing: "Composite"
    kept: Int[Tensor, " kept"] | None
    """Where entries of a sparse C were dropped: positions, in the old order, of those that stay."""


class Composite(Mixing):
    """C of which only some entries exist; which ones is learned."""

    chooses_atoms = True

    @abstractmethod
    def thinned(self, n_kept: int) -> Thinned:
        """C with only its globally largest |C|, this many."""

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(("mixing_rows", "mixing_columns", "mixing_values"), self.entries(), strict=True))


class Masked(Composite):
    """Composite C as a dense matrix under a mask.

    Masked entries keep their values, so a later, different mask can bring them back. A weight that is already a
    parameter stays the same parameter, so that its optimizer need not follow a change of mask.
    """

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

    def thinned(self, n_kept: int) -> Thinned:
        mask = torch.zeros_like(self.mask)
        mask.view(-1)[self.weight.detach().abs().view(-1).topk(n_kept, sorted=False).indices] = True
        masked, sparse = Masked(self.weight, mask), sparse_storage()
        is_thin = n_kept < SPARSE_BELOW * mask.numel()
        return Thinned(sparse(masked.entries(), self.shape) if is_thin and sparse is not None else masked, None)


def sparse_storage() -> "type[Sparse] | None":
    """The storage by entries; None without `model/fast`, where every composite C is masked."""
    try:
        from quadric.model.fast.sparse import Sparse
    except ModuleNotFoundError:
        return None
    return Sparse


def check_density(
    density: object, name: str = "mixing density", usual: str = "the paper keeps 0.001 of the entries"
) -> None:
    """Refuse a share outside (0, 1]."""
    if not isinstance(density, int | float) or isinstance(density, bool) or not 0 < density <= 1:
        raise ValueError(f"{name} {density!r} is outside (0, 1]; {usual}")


def with_density(mixing: Composite, density: float) -> Thinned:
    """The mixing with only the globally largest |C|, exactly round(density · k · h) of them and at least one."""
    n_kept = max(1, round(density * mixing.shape[0] * mixing.shape[1]))
    return mixing.thinned(n_kept)


def mixing_from_entries(entries: Entries, shape: tuple[int, int]) -> Composite:
    """A composite C with the given entries, in the storage that suits their number."""
    rows, columns, values = entries
    positions = rows * shape[1] + columns
    inside = bool(((rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])).all())
    if not inside or not bool((positions.diff() > 0).all()):
        raise ValueError(
            f"the entries of the mixing are not distinct, sorted positions in a {shape} matrix; save it again"
        )
    sparse = sparse_storage()
    if len(values) < SPARSE_BELOW * shape[0] * shape[1] and sparse is not None:
        return sparse(entries, shape)
    mask = torch.zeros(shape, dtype=torch.bool, device=values.device)
    mask[rows, columns] = True
    return Masked(values.new_zeros(shape).index_put((rows, columns), values), mask)


def mixing_from_state(state: dict[str, Tensor], shape: tuple[int, int]) -> Composite:
    """A composite C in the storage whose state_dict this is."""
    if "values" not in state:
        return Masked(state["weight"].clone(), state["mask"].clone())
    counts, sparse = state["row_starts"].diff(), sparse_storage()
    if sparse is None:
        raise ValueError("the checkpoint stores C by its entries, which needs quadric/model/fast; install all of it")
    rows = torch.repeat_interleave(torch.arange(shape[0], device=counts.device), counts)
    return sparse(Entries(rows, state["columns"], state["values"]), shape)


def initial_dense(shape: tuple[int, int], init: Initialization, generator: torch.Generator) -> Dense:
    """A random dense C."""
    _check_fits(shape, "choose the composite prior")
    return Dense(initial_matrix(init, shape, generator))


def initial_composite(
    shape: tuple[int, int], density: float, init: Initialization, generator: torch.Generator
) -> Composite:
    """A random composite C."""
    if density < 1 and sparse_storage() is not None:
        from quadric.model.fast.sparse import expected_row_norm, scattered_mixing

        return scattered_mixing(shape, density, expected_row_norm(init, shape), generator)
    _check_fits(shape, f"let C start with fewer entries (initial_density={min(1.0, 64 / shape[1]):.1g} is about 64 "
                       "atoms per latent)")  # fmt: skip
    return with_density(Masked(initial_matrix(init, shape, generator)), density).mixing


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


def _check_fits(shape: tuple[int, int], remedy: str) -> None:
    k, h = shape
    if k * h > LARGEST_DENSE:
        raise ValueError(
            f"all entries of C at n_latents={k} and n_hidden={h} take {4 * k * h / 2**30:.0f} GiB, and several times "
            f"that in training; {remedy}"
        )
