"""C stored by its entries, as a composite C is once fewer than 1 % of them remain; without it C stays masked."""

from math import sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from quadric.model.fast.products import CsrPattern, csr_matmul, csr_pattern
from quadric.model.mixing import Composite, Entries, Row, Thinned, mixing_from_entries
from quadric.model.settings import Initialization

SCATTERED_SHARE = 0.1
"""Norm of the weights of a sparse start on atoms that are not the latent's own, next to those that are."""


class Sparse(Composite):
    """Composite C stored by its entries, as CSR; entries that were dropped are gone.

    At a density of 0.1 % and two atoms per latent, about one atom in seven is unused before training. Leaving unused
    atoms out of the products skips a quarter of G.
    """

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

    def thinned(self, n_kept: int) -> Thinned:
        rows, columns, values = self.entries()
        if n_kept > len(values):
            size = self.shape[0] * self.shape[1]
            raise ValueError(
                f"density {n_kept / size:.4g} exceeds the current {len(values) / size:.4g}, and entries already "
                "dropped from a sparse mixing cannot come back; give a smaller density or start a new autoencoder"
            )
        if n_kept == len(values):
            return Thinned(self, None)
        kept = values.abs().topk(n_kept, sorted=False).indices.sort().values
        return Thinned(Sparse(Entries(rows[kept], columns[kept], values[kept]), self.shape), kept)

    def mix(self, atoms: Float[Tensor, "n h"]) -> Float[Tensor, "n k"]:
        return csr_matmul(self.values.to(atoms.dtype), self.pattern, atoms.mT).mT

    def unmix(self, latents: Float[Tensor, "n k"]) -> Float[Tensor, "n h"]:
        pattern = self.pattern
        return csr_matmul(self.values.to(latents.dtype)[pattern.by_column], pattern.transposed(), latents.mT).mT


def _find_used_atoms_again(mixing: Sparse, _: object) -> None:
    """After load_state_dict copied another pattern into the buffers."""
    mixing._register_used_atoms()


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


def expected_row_norm(init: Initialization, shape: tuple[int, int]) -> float:
    """Root mean square norm of a row of `initial_matrix`."""
    rows, columns = shape
    return sqrt(columns / max(rows, columns) if init == "orthogonal" else 2 * columns / (rows + columns))
