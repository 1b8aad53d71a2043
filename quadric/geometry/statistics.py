"""The numbers of every latent that need no data: those that the paper's viewer shows, a few more, and bits.

Those of the table are about the centre of the tokens, where it is known: eigenvalues are those of the quadratic part Q.

Bits say how long a description of the latents is, so that priors can be compared by error per bit. The code is simple:
every number costs `precision` bits, and a support is an index among all supports of its size. Offsets are left out:
they belong to the training penalty, not to the forms.
"""

import math
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.geometry.centring import CentreLike
from quadric.geometry.decomposition import Decomposition, decompose
from quadric.geometry.dictionary import as_forms, support
from quadric.geometry.neighbours import Redundancy, redundancy
from quadric.geometry.shapes import DEFAULT_TOLERANCE, check_tolerance
from quadric.geometry.spectra import captured_curve, effective_rank, ratio
from quadric.model import Dictionary
from quadric.model.forms import Forms


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LatentStatistics:
    """One row per latent; each column is an attribute, and `columns` gives them all as plain lists."""

    importance: Float[Tensor, " k"]
    """‖W‖² in the coordinates [v; c], divided by its average over latents; Σλ² where there is no linear part, and ‖d‖²
    for a direction d."""
    effective_rank: Float[Tensor, " k"]
    """(Σ|λ|)² / Σλ²: how many eigenvalues carry weight; 0 for an empty latent."""
    captured_1: Float[Tensor, " k"]
    """Share of Σ|λ| in the first eigenvalue; 0 for an empty latent, as are the next two."""
    captured: Float[Tensor, " k"]
    """Share of Σ|λ| in the first three eigenvalues, the paper's `captured`."""
    captured_5: Float[Tensor, " k"]
    """Share of Σ|λ| in the first five eigenvalues."""
    support: Int[Tensor, " k"]
    """Number of atoms that feed into the latent."""
    positive: Int[Tensor, " k"]
    """Number of positive eigenvalues that count for the shape."""
    negative: Int[Tensor, " k"]
    """Number of negative eigenvalues that count for the shape."""
    dimension: Int[Tensor, " k"]
    """Dimension of the latent's own subspace: positive + negative, and one more where the level sets open."""
    sign: Int[Tensor, " k"]
    """+1 or −1 if all eigenvalues that count have that sign, else 0."""
    shape: tuple[str, ...]
    """One of `quadric.geometry.SHAPES`: half-space, slab, ellipsoid, hyperboloid, paraboloids, constant, empty."""
    figure: tuple[str, ...]
    """The shape's own name where it has one, e.g. circle or sphere."""
    curvature: Float[Tensor, " k"]
    """Share of the variance of z that no linear function of the token explains, were the tokens Gaussian."""
    copy_of: Int[Tensor, " k"]
    """The earlier latent of which this one is a copy, see `quadric.geometry.redundancy`; −1 if none."""
    linear: Bool[Tensor, " k"]
    """Whether the latent is a direction of a linear dictionary: a half-space with curvature 0."""
    norm: Float[Tensor, " k"]
    """‖W_i‖_F; ‖d‖ for a direction d."""
    eigenvalue: Float[Tensor, " k"]
    """The eigenvalue of largest magnitude, with its sign."""
    eigenvalues: Float[Tensor, "k r"]
    """All eigenvalues by |λ| descending, padded with zeros."""
    tolerance: float
    """Share of a latent's variance that each part left out of its shape may have."""

    def __len__(self) -> int:
        return len(self.importance)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{count:,} {shape}" for shape, count in Counter(self.shape).most_common())
        rank = f"; median effective rank {self.effective_rank.median():.2f}" if len(self) else ""
        return f"LatentStatistics({len(self):,} latents: {shapes or 'none'}{rank})"

    def __getitem__(self, column: str) -> Any:
        """A column by its name."""
        if column not in _COLUMNS:
            raise KeyError(f"no column {column!r}; there are {', '.join(_COLUMNS)}")
        return getattr(self, column)

    def captured_curve(self) -> Float[Tensor, "k r"]:
        """Share of Σ|λ| in the first 1, 2, … eigenvalues."""
        return captured_curve(self.eigenvalues)

    def columns(self) -> dict[str, list[Any]]:
        """Every column as a plain list, with the latent's index first."""
        values = {name: getattr(self, name) for name in _COLUMNS}
        lists = {name: value.tolist() if isinstance(value, Tensor) else list(value) for name, value in values.items()}
        return {"latent": list(range(len(self))), **lists}


_COLUMNS = tuple(field.name for field in fields(LatentStatistics) if field.name not in ("eigenvalues", "tolerance"))


def statistics(
    autoencoder: Dictionary,
    tolerance: float = DEFAULT_TOLERANCE,
    on_progress: Progress = no_progress,
    geometry: Decomposition | None = None,
    *,
    centre: CentreLike | None = None,
) -> LatentStatistics:
    """Compute the table of all latents from weights alone: importance, effective rank, support, shape and more.

    Args:
        autoencoder: Any dictionary.
        tolerance: Share of a latent's variance that each part left out of its shape may have.
        on_progress: Called as latents are decomposed.
        geometry: The autoencoder's geometry, if it was computed before with that tolerance; then no latent is
            decomposed again.
        centre: Of the unit tokens that a raw dictionary reads: their mean, or a `Centre` with their covariance; the
            origin if left out. An affine lens has its own, and so does a geometry.

    Returns:
        One row per latent, each column an attribute.

    Example:
        >>> table = geometry.statistics(ae)
        >>> table.shape[3] in geometry.SHAPES
        True
        >>> round(table.importance.mean().item(), 6)
        1.0
    """
    check_tolerance(tolerance)
    if geometry is not None:
        geometry.check_weights(autoencoder)
        centre = geometry.centre
    if geometry is None or geometry.tolerance != tolerance:
        geometry = decompose(autoencoder, 0, on_progress, centre=centre, tolerance=tolerance)
    known: Redundancy | None = getattr(geometry, "redundancy", None)
    return statistics_of(geometry, (known or redundancy(autoencoder)).copy_of)


def statistics_of(geometry: Decomposition, copy_of: Int[Tensor, " k"]) -> LatentStatistics:
    """The table of latents that are decomposed already."""
    eigenvalues, found = geometry.eigenvalues, geometry.readings
    curve = captured_curve(eigenvalues)
    shapes = [found.shape_of(latent, geometry.tolerance) for latent in range(geometry.n_latents)]
    return LatentStatistics(
        importance=ratio(geometry.energy, geometry.energy.mean()),
        effective_rank=effective_rank(eigenvalues),
        captured_1=_captured_by(curve, 1),
        captured=_captured_by(curve, 3),
        captured_5=_captured_by(curve, 5),
        support=geometry.support,
        positive=found.positive,
        negative=found.negative,
        dimension=found.positive + found.negative + found.opens,
        sign=(found.positive > 0).long() - (found.negative > 0).long(),
        shape=tuple(shape.kind for shape in shapes),
        figure=tuple(shape.figure for shape in shapes),
        curvature=found.curvature,
        copy_of=copy_of,
        linear=torch.full((geometry.n_latents,), geometry.is_linear),
        norm=geometry.energy.sqrt(),
        eigenvalue=eigenvalues[:, 0] if eigenvalues.shape[1] else geometry.energy * 0,
        eigenvalues=eigenvalues,
        tolerance=geometry.tolerance,
    )


def _captured_by(curve: Tensor, count: int) -> Tensor:
    width = curve.shape[-1]
    return curve[:, min(count, width) - 1] if width else curve.new_zeros(len(curve))


class DescriptionLength(NamedTuple):
    """Bits of an autoencoder's forms, each latent taken alone and all of them together."""

    alone: Float[Tensor, " k"]
    """Bits of each latent with its own copies of its atoms, or of its w(w+1)/2 entries where that is shorter."""
    atoms: float
    """Bits of the atoms that any latent uses, each counted once."""
    supports: float
    """Bits that encode which atoms each latent uses; 0 where the prior fixes it."""
    weights: float
    """Bits of the entries of C that differ from zero; 0 where C is the identity."""
    precision: int
    """Bits per number."""

    def __repr__(self) -> str:
        return (
            f"DescriptionLength({len(self.alone):,} latents, {self.total:.4g} bits at {self.precision} bits per number)"
        )

    @property
    def total(self) -> float:
        """Bits of the whole dictionary, shared atoms counted once."""
        return self.atoms + self.supports + self.weights


@torch.no_grad()
def description_length(autoencoder: Dictionary | Forms, precision: int | None = None) -> DescriptionLength:
    """Bits of every latent and of the whole dictionary; by default at the precision in which the weights are stored.

    A latent with s of h atoms costs log₂(h + 1) + log₂ C(h, s) bits for its support, s weights and s atoms of 2w
    numbers (w where L = R), with w = d, or d + 1 with an affine lens. The lens itself is not counted. A direction of a
    linear dictionary costs d numbers: what it writes, without its encoder.

    Args:
        autoencoder: Any dictionary.
        precision: Bits per number; by default those of the stored weights.

    Returns:
        Bits of each latent alone, and of the dictionary, in which shared atoms count once.

    Example:
        >>> bits = geometry.description_length(ae, precision=16)
        >>> bits.total <= bits.alone.sum()
        tensor(True)
    """
    bilinear = as_forms(autoencoder)
    precision = 8 * bilinear.left.element_size() if precision is None else precision
    if precision < 1:
        raise ValueError(f"precision={precision} is not a number of bits ≥ 1; 32 is that of float32")
    counts = support(bilinear).cpu().double()
    choice = _support_bits(counts, bilinear)
    values = counts * precision if bilinear.mixing.has_weights else torch.zeros_like(counts)
    width = bilinear.lens.width
    per_atom = width * (1 if bilinear.same_factors else 2) * precision
    _, atoms, entries = bilinear.mixing.entries()
    n_used = int(torch.bincount(atoms[entries != 0]).count_nonzero())
    whole_matrix = precision * width * (width + 1) / 2
    return DescriptionLength(
        alone=(choice + values + counts * per_atom).clamp(max=whole_matrix),
        atoms=float(n_used * per_atom),
        supports=float(choice.sum()),
        weights=float(values.sum()),
        precision=precision,
    )


def _support_bits(counts: Tensor, autoencoder: Forms) -> Tensor:
    """log₂(h + 1) for the size and log₂ C(h, s) for the choice, where the prior leaves them open."""
    if not autoencoder.mixing.chooses_atoms:
        return torch.zeros_like(counts)
    h = torch.tensor(float(autoencoder.n_hidden), dtype=torch.float64)
    choices = torch.lgamma(h + 1) - torch.lgamma(counts + 1) - torch.lgamma(h - counts + 1)
    return math.log2(autoencoder.n_hidden + 1) + choices.clamp(min=0) / math.log(2)
