"""The prior as a constraint on C, the k×h matrix that mixes atoms into latents.

Atomic fixes C = I, composite keeps only the globally largest |C|, quadratic leaves C dense. All three answer the
same questions, so the autoencoder does not know which one it holds:

    mix: y ↦ yCᵀ (atoms to latents)    unmix: z ↦ zC (latents to atoms)    kernel: G ↦ CGCᵀ    row: the support of c_i
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.autoencoders.kernels.csr import CsrPattern, csr_pattern
from quadric.autoencoders.kernels.kernel import dense_kernel
from quadric.autoencoders.sparse_mixing import LivePattern, SparseMixing, live_pattern

Prior = Literal["atomic", "composite", "quadratic"]

SPARSE_BELOW = 0.01
"""Density under which C is stored sparse. Sparse products win from about 10 % down (benchmarks/results/mixing.md), but
only dense storage lets an entry come back, so we wait until they are four times as fast."""


class Row(NamedTuple):
    """The atoms that feed one latent, and their weights."""

    atoms: Int[Tensor, " s"]
    weights: Float[Tensor, " s"]


class Atomic(nn.Module):
    """C = I: each latent is one atom."""

    def __init__(self, n_latents: int) -> None:
        super().__init__()
        self.n_latents = n_latents

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n h"]:
        return atoms

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        return latents

    def kernel(self, gram: Float[Tensor, "h h"]) -> Float[Tensor, "h h"]:
        return gram

    def live(self) -> tuple[None, "Atomic"]:
        return None, self

    def row(self, latent: int) -> Row:
        return Row(torch.tensor([latent]), torch.ones(1))


class Quadratic(nn.Module):
    """C dense: each latent is any mixture of all atoms."""

    def __init__(self, weight: Float[Tensor, "k h"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        return (self.weight.to(atoms.dtype) @ atoms.mT).mT

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        return latents @ self.weight.to(latents.dtype)

    def kernel(self, gram: Float[Tensor, "h h"]) -> Float[Tensor, "k k"]:
        return dense_kernel(self.weight.to(gram.dtype), gram)

    def live(self) -> tuple[None, "Quadratic"]:
        return None, self

    def row(self, latent: int) -> Row:
        weights = self.weight[latent].detach()
        return Row(torch.arange(len(weights), device=weights.device), weights)


class Composite(nn.Module):
    """C sparse: dense under a mask while the mask is thick, then its surviving entries only.

    Masked entries keep their values while the storage is dense, so that an optimizer can bring them back;
    once the storage is sparse they are gone.
    """

    weight: nn.Parameter | None
    values: nn.Parameter | None
    mask: Tensor | None
    columns: Tensor
    _live: tuple[Tensor, int, LivePattern] | None = None

    def __init__(self, weight: Float[Tensor, "k h"], density: float) -> None:
        super().__init__()
        self.shape = (weight.shape[0], weight.shape[1])
        self.weight = nn.Parameter(weight)
        self.register_parameter("values", None)
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))
        self.keep_largest(density)

    @classmethod
    def from_entries(
        cls,
        rows: Int[Tensor, " nnz"],
        columns: Int[Tensor, " nnz"],
        values: Float[Tensor, " nnz"],
        shape: tuple[int, int],
    ) -> "Composite":
        """A mixing with the given entries, sorted by row and column, as `entries` returns them."""
        mixing = cls.__new__(cls)
        nn.Module.__init__(mixing)
        mixing.shape = shape
        if len(values) < SPARSE_BELOW * shape[0] * shape[1]:
            mixing._store_sparse(rows, columns, values)
            return mixing
        weight = torch.zeros(shape, dtype=values.dtype, device=values.device)
        mask = torch.zeros(shape, dtype=torch.bool, device=values.device)
        weight[rows, columns] = values
        mask[rows, columns] = True
        mixing.weight = nn.Parameter(weight)
        mixing.register_parameter("values", None)
        mixing.register_buffer("mask", mask)
        return mixing

    @property
    def is_sparse(self) -> bool:
        """Whether only the surviving entries are stored."""
        return self.values is not None

    @property
    def n_entries(self) -> int:
        """How many entries of C may differ from zero."""
        return len(self.values) if self.values is not None else int(self._dense()[1].sum())

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        if self.values is None:
            return (self._masked(atoms.dtype) @ atoms.mT).mT
        return SparseMixing(self.values, self.pattern).mix(atoms)

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        if self.values is None:
            return latents @ self._masked(latents.dtype)
        return SparseMixing(self.values, self.pattern).unmix(latents)

    def kernel(self, gram: Float[Tensor, "h h"]) -> Float[Tensor, "k k"]:
        if self.values is None:
            return dense_kernel(self._masked(gram.dtype), gram)
        return SparseMixing(self.values, self.pattern).kernel(gram)

    def live(self) -> tuple[Int[Tensor, " live"] | None, "Composite | SparseMixing"]:
        """The atoms that have entries (None: all) and the mixing of those alone."""
        if self.values is None:
            return None, self
        atoms, pattern = self._live_pattern()
        return atoms, SparseMixing(self.values, pattern)

    def _live_pattern(self) -> LivePattern:
        columns: Tensor = self.columns
        # Found once for every pattern: a new one is a new tensor, a loaded one a new version of the same tensor.
        if self._live is None or self._live[0] is not columns or self._live[1] != columns._version:
            self._live = (columns, columns._version, live_pattern(self.pattern))
        return self._live[2]

    def state_from(self, state: dict[str, Tensor]) -> "Composite":
        """A mixing of this shape with the storage and the contents of a saved state_dict."""
        if "values" not in state:
            mixing = Composite(torch.zeros(self.shape, dtype=state["weight"].dtype), 1.0)
        else:
            rows = torch.repeat_interleave(torch.arange(self.shape[0]), state["row_starts"].diff())
            mixing = Composite.from_entries(rows, state["columns"], state["values"], self.shape)
        mixing.load_state_dict(state)
        return mixing

    def row(self, latent: int) -> Row:
        if self.values is None:
            weight, mask = self._dense()
            atoms = mask[latent].nonzero()[:, 0]
            return Row(atoms, weight[latent, atoms].detach())
        pattern = self.pattern
        start, end = pattern.row_starts[latent : latent + 2].tolist()
        return Row(pattern.columns[start:end], self.values[start:end].detach())

    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row, column and value of every entry, sorted by row and then by column."""
        if self.values is None:
            weight, mask = self._dense()
            rows, columns = mask.nonzero(as_tuple=True)
            return rows, columns, weight.detach()[rows, columns]
        pattern = self.pattern
        counts = pattern.row_starts.diff()
        rows = torch.repeat_interleave(torch.arange(self.shape[0], device=counts.device), counts)
        return rows, pattern.columns, self.values.detach()

    def keep_largest(self, density: float) -> Int[Tensor, " kept"] | None:
        """Keep the globally largest |C|, exactly round(density · k · h) of them and at least one.

        Where entries of a sparse C are dropped, returns the old places of those that stay: an optimizer that
        remembers something of every entry must follow.
        """
        size = self.shape[0] * self.shape[1]
        n_kept = max(1, round(density * size))
        if self.values is not None:
            return self._thin(n_kept)
        weight, mask = self._dense()
        mask.zero_().view(-1)[weight.detach().abs().view(-1).topk(n_kept, sorted=False).indices] = True
        if n_kept < SPARSE_BELOW * size:
            self._store_sparse(*self.entries())
        return None

    def _thin(self, n_kept: int) -> Tensor | None:
        rows, columns, values = self.entries()
        if n_kept > len(values):
            size = self.shape[0] * self.shape[1]
            raise ValueError(
                f"density {n_kept / size:.4g} exceeds the current {len(values) / size:.4g}, and entries already "
                "dropped from a sparse mixing cannot come back; give a smaller density or start a new autoencoder"
            )
        if n_kept == len(values):
            return None
        kept = values.abs().topk(n_kept, sorted=False).indices.sort().values
        self._store_sparse(rows[kept], columns[kept], values[kept])
        return kept

    def _store_sparse(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        pattern = csr_pattern(rows, columns, self.shape)
        self.register_parameter("weight", None)
        self.register_buffer("mask", None)
        self.values = nn.Parameter(values.detach().clone())
        for name in CsrPattern._fields[:-1]:
            self.register_buffer(name, getattr(pattern, name))

    @property
    def pattern(self) -> CsrPattern:
        """The places of the entries, rebuilt from buffers so that they follow the module between devices."""
        places = {name: getattr(self, name) for name in CsrPattern._fields[:-1]}
        return CsrPattern(**places, shape=self.shape)

    def _dense(self) -> tuple[Tensor, Tensor]:
        assert self.weight is not None
        assert self.mask is not None
        return self.weight, self.mask

    def _masked(self, dtype: torch.dtype) -> Tensor:
        weight, mask = self._dense()
        return weight.to(dtype) * mask
