"""The latents of a dictionary as geometry sees them: quadratic forms that share their atoms, or directions.

Geometry, comparison and viewing ask a dictionary for `forms()` and never for its class. A kind from outside gives them
with `forms_of` and then has spectra, shapes, neighbours and similarities like ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.model.devices import copy_on
from quadric.model.lens import Lens, PaperLens
from quadric.model.mixing import Dense, Entries, Identity, Mixing, mixing_from_entries
from quadric.model.settings import Input


@dataclass(frozen=True, eq=False)
class Forms:
    """W_i = Σ_j C_ij ½(l_j r_jᵀ + r_j l_jᵀ) in the coordinates of a lens; atoms are shared, never one copy per latent.

    Example:
        >>> forms = quadric.Atomic(n_latents=16, lens="paper").build(8).forms()
        >>> forms.n_latents, forms.width
        (16, 8)
    """

    left: Float[Tensor, "h w"]
    right: Float[Tensor, "h w"]
    """The same tensor as `left` if every atom is a square."""
    mixing: Mixing
    """C, in any storage."""
    lens: Lens
    symmetric: bool = True
    """False where the error is measured with the printed atoms l rᵀ; the forms are symmetric either way."""

    @property
    def n_latents(self) -> int:
        """k."""
        return self.mixing.shape[0]

    @property
    def n_hidden(self) -> int:
        """h."""
        return len(self.left)

    @property
    def width(self) -> int:
        """Coordinates that the forms read."""
        return self.left.shape[1]

    @property
    def d_model(self) -> int:
        """Width of the tokens."""
        return self.lens.d_model

    @property
    def same_factors(self) -> bool:
        """L = R."""
        return self.right is self.left

    def to(self, device: torch.device) -> "Forms":
        """The same forms on a device."""
        if self.left.device == device:
            return self
        left = self.left.to(device)
        right = left if self.same_factors else self.right.to(device)
        return replace(
            self, left=left, right=right, mixing=copy_on(self.mixing, device), lens=copy_on(self.lens, device)
        )

    def moved(self, change: Callable[[Tensor], Tensor], lens: Lens | None = None) -> "Forms":
        """The same forms in other coordinates: `change` maps L and R, in double precision."""
        left = change(self.left.detach().double())
        right = left if self.same_factors else change(self.right.detach().double())
        return replace(self, left=left, right=right, lens=self.lens if lens is None else lens)

    def raw(self) -> "Forms":
        """The same reconstruction as forms on the raw unit token, without a lens."""
        return self.moved(self.lens.to_raw, PaperLens(self.d_model))

    def form(self, latent: int) -> Float[Tensor, "w w"]:
        """W_i, symmetric."""
        atoms, weights = self.mixing.row(latent)
        form = self.left[atoms].mT @ (weights.to(self.left)[:, None] * self.right[atoms])
        return (form + form.mT) / 2


class Directions(NamedTuple):
    """Linear latents: z = gate(reads · (x − b) + constants), x̂ = Σ z_i writes_i + b."""

    reads: Float[Tensor, "k d"]
    constants: Float[Tensor, " k"]
    writes: Float[Tensor, "k d"]
    bias: Float[Tensor, " d"]
    """b; it is not subtracted from x where `subtracts_bias` is False."""
    subtracts_bias: bool = True
    input: Input = "unit"
    """What is read of a token."""
    n_active: int | None = None
    """Latents that fire per token, where the gate leaves a set number of them."""

    @property
    def n_latents(self) -> int:
        """k."""
        return len(self.reads)

    @property
    def d_model(self) -> int:
        """Width of the tokens."""
        return self.reads.shape[1]


def forms_of(
    left: Float[Tensor, "h w"],
    right: Float[Tensor, "h w"] | None = None,
    mixing: Tensor | None = None,
    lens: Lens | None = None,
) -> Forms:
    """Forms of a kind from outside.

    Args:
        left: l_j.
        right: r_j; by default the same, so that every atom is a square.
        mixing: C, (latents, atoms), dense or in torch's CSR layout; by default every atom is a latent.
        lens: coordinates of the forms; by default those of the token.

    Returns:
        The forms.

    Example:
        >>> from quadric.model import forms_of
        >>> planes = forms_of(torch.randn(6, 8), mixing=torch.eye(3).repeat_interleave(2, dim=1))
        >>> planes.n_latents, torch.linalg.matrix_rank(planes.form(0)).item()
        (3, 2)
    """
    if mixing is None:
        storage: Mixing = Identity(len(left))
    elif mixing.layout == torch.sparse_csr:
        counts = mixing.crow_indices().diff()
        rows = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        entries = Entries(rows, mixing.col_indices(), mixing.values())
        storage = mixing_from_entries(entries, (mixing.shape[0], mixing.shape[1]))
    else:
        storage = Dense(mixing.detach())
    return Forms(left, left if right is None else right, storage, PaperLens(left.shape[1]) if lens is None else lens)
