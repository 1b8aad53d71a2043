"""All latents of a dictionary about the centre of the tokens, each decomposed once.

Every latent is z = vᵀQv + c·bᵀv + c²a (`quadric.geometry.centring`). Kept are all eigenvalues of Q, the shape, and a
frame of axes in which the latent is shown; everything else that geometry reports about a whole dictionary follows from
these tensors. All eigenvectors rarely fit into memory: 8 axes in float32 take 270 MB at k = 8,192 and d = 1,024.

On the slice through the centre that some axes (`quadric.geometry.axes`) span, with ξ the coordinates on them,

    z = Σ(axis_quadratic ξ² + axis_linear ξ) + constant,

exactly for eigenvectors. The latents of a linear dictionary have no quadratic part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.geometry.axes import NO_AXIS, direction_frames, eigenvector_frames, principal_components
from quadric.geometry.centring import (
    Centre,
    CentredDirections,
    CentreLike,
    Centring,
    as_centre,
    centred_factors,
    centring_of,
    directions_of,
)
from quadric.geometry.dictionary import Terms, require_forms, support, term_batches
from quadric.geometry.shapes import (
    CONSTANT,
    DEFAULT_TOLERANCE,
    EMPTY,
    HALF_SPACE,
    Readings,
    check_tolerance,
    read_shapes,
)
from quadric.geometry.spectra import Eigenpairs, SpectrumBatch, eigenpairs, eigenvalues, padded_table
from quadric.model import Dictionary
from quadric.model.forms import Directions, Forms
from quadric.model.storage import check_weights, weights_sha256

KEPT_AXES = 8
"""Axes kept per latent; by default neighbours and evidence use as many."""
WIDEST_IN_DOUBLE = 512
"""Largest d_model for which the covariance is applied in float64; beyond, float32 changes a share by about 1e-6."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Decomposition:
    """Every latent of one dictionary about the centre: eigenvalues of Q, axes, shape."""

    weights_sha256: str
    """Hash of the weights that were decomposed, see `quadric.model.storage.weights_sha256`."""
    centre_sha256: str
    """Hash of the centre about which a raw dictionary was read; empty for the origin and for a lens's own centre."""
    centre: Centre | None
    """The centre about which a raw dictionary was read; None for the origin and for a lens's own centre."""
    tolerance: float
    """Share of a latent's variance that each part left out of its shape may have."""
    eigenvalues: Float[Tensor, "k r"]
    """All eigenvalues of Q by |λ| descending, padded with zeros; float64."""
    support: Int[Tensor, " k"]
    """Number of atoms that feed into each latent."""
    axes: Float32[Tensor, "k d a"]
    """The frame in which each latent is shown, orthonormal columns, zero beyond what there is. The sign of an axis is
    arbitrary; here its largest entry is positive, so that the same weights give the same axes."""
    axis_quadratic: Float[Tensor, "k a"]
    """axisᵀQ axis: λ where the axis is an eigenvector."""
    axis_linear: Float[Tensor, "k a"]
    """c·b·axis: the slope of z along the axis at the centre."""
    axis_kind: Int[Tensor, "k a"]
    """EIGENVECTOR, LINEAR_DIRECTION or NO_AXIS; for directions also READING_DIRECTION and PRINCIPAL_COMPONENT."""
    constant: Float[Tensor, " k"]
    """c²a: z at the centre."""
    energy: Float[Tensor, " k"]
    """‖W̃‖² = Σλ² + ‖b‖²/2 + a² in the coordinates [v; c]; ‖d‖² where latents are directions d."""
    readings: Readings
    """Shape and curvature of every latent."""
    is_linear: bool = False
    """Whether latents are directions of a linear dictionary: z is then what a gate lets through of the affine function,
    0 where that is negative."""

    @property
    def n_latents(self) -> int:
        return len(self.eigenvalues)

    def __repr__(self) -> str:
        k, d, kept = self.axes.shape
        return (
            f"{type(self).__name__}({k:,} latents, d_model={d}, {self.eigenvalues.shape[1]} eigenvalues and "
            f"{kept} axes per latent, weights {self.weights_sha256[:12]})"
        )

    def check_weights(self, autoencoder: Dictionary) -> None:
        """Raise if this decomposition belongs to other weights."""
        remedy = "compute it again with quadric.geometry.dictionary_geometry(autoencoder)"
        check_weights(self.weights_sha256, autoencoder, "the geometry", remedy)

    def leading(self, count: int) -> Float32[Tensor, "k d count"] | None:
        """The first `count` axes of every latent, zero beyond what there is; None if fewer were kept."""
        _, d_model, kept = self.axes.shape
        if min(count, d_model) > kept:
            return None
        return torch.nn.functional.pad(self.axes[..., :count], (0, max(0, count - kept)))


Geometry = TypeVar("Geometry", bound=Decomposition)


def with_signs(geometry: Geometry, signs: Float[Tensor, " k"]) -> Geometry:
    """The same latents with the sign of some forms changed, W → −W: what evidence in its canonical sign shows.

    Args:
        geometry: A decomposition.
        signs: +1 or −1 for every latent.

    Returns:
        Eigenvalues, coefficients of axes and constants with those signs; axes stay as they are.

    Example:
        >>> import torch
        >>> known = geometry.decompose(ae)
        >>> turned = geometry.with_signs(known, -torch.ones(ae.n_latents))
        >>> torch.equal(turned.eigenvalues, -known.eigenvalues)
        True
    """
    signs = signs.to(geometry.eigenvalues)
    turned, found = signs < 0, geometry.readings
    readings = found._replace(
        positive=torch.where(turned, found.negative, found.positive),
        negative=torch.where(turned, found.positive, found.negative),
    )
    return replace(
        geometry,
        eigenvalues=signs[:, None] * geometry.eigenvalues,
        axis_quadratic=signs[:, None] * geometry.axis_quadratic,
        axis_linear=signs[:, None] * geometry.axis_linear,
        constant=signs * geometry.constant,
        readings=readings,
    )


@torch.no_grad()
def decompose(
    autoencoder: Dictionary,
    n_axes: int = KEPT_AXES,
    on_progress: Progress = no_progress,
    *,
    centre: CentreLike | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Decomposition:
    """Decompose every latent about the centre of the tokens, once.

    Args:
        autoencoder: Any dictionary.
        n_axes: Axes to keep per latent.
        on_progress: Called after every batch of latents.
        centre: Of the unit tokens that a raw dictionary reads, with their covariance if it is known; the origin if
            left out. An affine lens has its own.
        tolerance: Share of a latent's variance that each part left out of its shape may have.

    Returns:
        Eigenvalues, axes and shape of all latents, on the CPU.

    Example:
        >>> known = geometry.decompose(ae, n_axes=3)
        >>> len(known.eigenvalues) == ae.n_latents
        True
    """
    check_tolerance(tolerance)
    centring = centring_of(autoencoder, centre)
    directions = autoencoder.forms()
    if isinstance(directions, Directions):
        found, eigenvalues = directions_part(directions, centring, n_axes)
        on_progress("geometry", autoencoder.n_latents, autoencoder.n_latents, "")
    else:
        found, eigenvalues = _forms_part(require_forms(autoencoder), centring, n_axes, tolerance, on_progress)
    return Decomposition(
        weights_sha256=weights_sha256(autoencoder),
        centre_sha256=centring.sha256,
        centre=as_centre(centre) if centre is not None and centring.sha256 else None,
        tolerance=tolerance,
        eigenvalues=eigenvalues,
        support=support(autoencoder).cpu(),
        **found.columns,
        readings=found.readings,
        is_linear=isinstance(directions, Directions),
    )


def _forms_part(
    autoencoder: Forms, centring: Centring, n_axes: int, tolerance: float, on_progress: Progress
) -> tuple["Part", Float[Tensor, "k r"]]:
    """All latents of a bilinear dictionary, and their eigenvalues."""
    parts: list[Part] = []
    values: list[tuple[Tensor, Tensor]] = []
    done = 0
    for terms in term_batches(autoencoder, centred_factors(autoencoder, centring)):
        part, own = decompose_batch(terms, centring, n_axes, tolerance)
        parts.append(part)
        values.append((terms.latents.cpu(), own.cpu()))
        done += len(terms.latents)
        on_progress("geometry", done, autoencoder.n_latents, "")
    return _in_order(parts), padded_table(values, autoencoder.n_latents)


def directions_part(
    directions: Directions, centring: Centring, n_axes: int, latents: slice = slice(None)
) -> tuple["Part", Float[Tensor, "b r"]]:
    """Latents of a linear dictionary, and their eigenvalues, of which there are none."""
    found = directions_of(directions, centring.centre, latents)
    frames = direction_frames(found, principal_components(centring.covariance, n_axes), n_axes)
    columns = {
        "axes": frames.axes.float(),
        "axis_quadratic": torch.zeros_like(frames.slopes),
        "axis_linear": frames.slopes,
        "axis_kind": frames.kinds,
        "constant": found.constant,
        "energy": found.writes.square().sum(-1),
    }
    numbers = torch.arange(directions.n_latents)[latents]
    return Part(numbers, columns, _direction_readings(found)), found.constant.new_zeros(len(numbers), 1)


def _direction_readings(found: CentredDirections) -> Readings:
    """Half-spaces of curvature 0; a latent that reads nothing is constant, and one that writes nothing is empty."""
    reads, writes = found.reads.any(1), found.writes.any(1)
    shape = torch.where(writes, torch.where(reads, HALF_SPACE, CONSTANT), EMPTY)
    nothing = torch.zeros_like(shape)
    return Readings(
        shape=shape,
        curvature=torch.zeros_like(found.constant),
        positive=nothing,
        negative=nothing,
        opens=shape == HALF_SPACE,
        round=torch.zeros_like(reads),
    )


def centred_spectra(autoencoder: Dictionary | Forms, centre: CentreLike | None = None) -> Iterator[SpectrumBatch]:
    """The eigenpairs of every latent's quadratic part Q, batch by batch; eigenvectors are directions of the token."""
    bilinear = require_forms(autoencoder)
    for terms in term_batches(bilinear, centred_factors(bilinear, centring_of(bilinear, centre))):
        yield SpectrumBatch(terms.latents, *_quadratic_part(terms))


def leading_axes(
    autoencoder: Dictionary, n_axes: int, geometry: Decomposition | None = None, *, centre: CentreLike | None = None
) -> Float32[Tensor, "k d a"]:
    """The first axes of every latent, zero beyond what there is, from a geometry that holds enough of them or anew."""
    if geometry is not None:
        geometry.check_weights(autoencoder)
        if (known := geometry.leading(n_axes)) is not None:
            return known
    return decompose(autoencoder, n_axes, centre=centre).axes


class Part(NamedTuple):
    """Some latents."""

    latents: Tensor
    columns: dict[str, Any]
    """Tensors of `Decomposition` by name."""
    readings: Readings


def _in_order(parts: list[Part]) -> Part:
    latents = torch.cat([part.latents for part in parts])
    order = latents.argsort()
    columns = {name: torch.cat([part.columns[name] for part in parts])[order] for name in parts[0].columns}
    readings = zip(*(part.readings for part in parts), strict=True)
    return Part(latents[order], columns, Readings(*(torch.cat(column)[order] for column in readings)))


def decompose_batch(terms: Terms, centring: Centring, n_axes: int, tolerance: float) -> tuple[Part, Tensor]:
    """Latents of equal support, and the eigenvalues of their quadratic parts."""
    linear, constant = linear_and_constant(terms)
    if centring.at_origin and not n_axes:
        values, directions = _without_rounding(eigenvalues(*_on_v(terms), terms.weights), terms), None
        beta, spread = torch.zeros_like(values), centring.covariance
        assert isinstance(spread, float)
    else:
        values, directions = _quadratic_part(terms)
        beta = (linear[:, None] @ directions)[:, 0]
        spread = _spread(directions, centring.covariance)
    reading = read_shapes(values, beta, constant, centring.scale, spread, tolerance)
    if directions is None:
        axes, kinds = linear.new_zeros(*linear.shape, n_axes), torch.full((len(linear), n_axes), NO_AXIS)
        within = axes.new_zeros(len(axes), n_axes, values.shape[1])
    else:
        axes, kinds = eigenvector_frames(directions, values, reading, n_axes)
        within = axes.mT @ directions
    columns = {
        "axes": axes.float(),
        "axis_quadratic": (within.square() * values[:, None]).sum(-1),
        "axis_linear": centring.scale * (linear[:, None] @ axes)[:, 0],
        "axis_kind": kinds,
        "constant": centring.scale**2 * constant,
        "energy": values.square().sum(-1) + linear.square().sum(-1) / 2 + constant.square(),
    }
    on_cpu = {name: column.cpu() for name, column in columns.items()}
    return Part(terms.latents.cpu(), on_cpu, Readings(*(each.cpu() for each in reading.columns))), values


def _on_v(terms: Terms) -> tuple[Tensor, Tensor]:
    left = terms.left[..., :-1]
    return left, left if terms.right is terms.left else terms.right[..., :-1]


def _quadratic_part(terms: Terms) -> Eigenpairs:
    """Q = Σ_j C_j sym(l_v r_vᵀ)."""
    values, directions = eigenpairs(*_on_v(terms), terms.weights)
    return Eigenpairs(_without_rounding(values, terms), directions)


def linear_and_constant(terms: Terms) -> tuple[Float[Tensor, "b d"], Float[Tensor, " b"]]:
    """b = Σ_j C_j (l_v r_c + r_v l_c) and a = Σ_j C_j l_c r_c; zero where they are rounding."""
    (left, right), weights = _on_v(terms), terms.weights.double()
    on_left, on_right = terms.left[..., -1].double(), terms.right[..., -1].double()
    linear = ((weights * on_right)[:, None].to(left) @ left + (weights * on_left)[:, None].to(right) @ right)[:, 0]
    constant = (weights * on_left * on_right).sum(-1)
    floor = _rounding(terms, terms.left.shape[-1])
    norms = torch.linalg.vector_norm(linear.double(), dim=-1)
    return (
        torch.where((norms <= floor)[:, None], 0, linear.double()),
        torch.where(constant.abs() <= floor, 0, constant),
    )


def _without_rounding(values: Float[Tensor, "b r"], terms: Terms) -> Float[Tensor, "b r"]:
    """Eigenvalues, zero where they are the rounding of l − (l·m)m: it is relative to l, not to what is left."""
    return torch.where(values.abs() <= _rounding(terms, values.shape[-1])[:, None], 0, values)


def _rounding(terms: Terms, count: int) -> Float[Tensor, " b"]:
    norms = torch.linalg.vector_norm(terms.left, dim=-1) * torch.linalg.vector_norm(terms.right, dim=-1)
    size = (terms.weights.abs() * norms).sum(-1).double()
    floor: Tensor = torch.finfo(torch.float64).eps * max(1, count) * size
    return floor


def _spread(directions: Float[Tensor, "b d r"], covariance: Tensor | float) -> Float[Tensor, "b r r"] | float:
    """Covariance of the coordinates on the eigenvectors."""
    if isinstance(covariance, float):
        return covariance
    dtype = torch.float64 if len(covariance) <= WIDEST_IN_DOUBLE else torch.float32
    basis = directions.to(dtype)
    spread: Tensor = basis.mT @ (covariance.to(basis) @ basis)
    return spread.double()
