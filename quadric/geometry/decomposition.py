"""All latents of a dictionary about the centre of the tokens, each decomposed once.

Every latent is z = vᵀQv + c·bᵀv + c²a (`quadric.geometry.centring`). Kept are all eigenvalues of Q, the shape, and a
frame of axes in which the latent is shown; everything else that geometry reports about a whole dictionary follows from
these tensors. All eigenvectors rarely fit into memory: 8 axes in float32 take 270 MB at k = 8,192 and d = 1,024.

The axes of a latent are eigenvectors of Q, those that count for its shape first, each part by |λ| descending. Where the
level sets open, the direction of the linear part is one of them: first for a half-space; third for a paraboloid, or
after the eigenvectors that count if there is only one. Eigenvectors that do not count are made orthogonal to it; b_⊥ is
orthogonal to the others anyway. On the slice through the centre that some axes span, with ξ the coordinates on them,

    z = Σ(axis_quadratic ξ² + axis_linear ξ) + constant,

exactly for eigenvectors. The latents of a linear dictionary have no quadratic part, and axes of their own
(`quadric.geometry.directions`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from quadric._io.progress import Progress, no_progress
from quadric.geometry.axes import EIGENVECTOR, LINEAR_DIRECTION, NO_AXIS, orthonormal, with_fixed_signs
from quadric.geometry.centring import Centre, CentreLike, Centring, as_centre, centred_factors, centring_of
from quadric.geometry.dictionary import Terms, require_bilinear, support, term_batches
from quadric.geometry.directions import (
    direction_frames,
    direction_readings,
    directions_of,
    principal_components,
)
from quadric.geometry.eigenpairs import Eigenpairs, eigenpairs, eigenvalues
from quadric.geometry.forms import Form
from quadric.geometry.shapes import (
    DEFAULT_TOLERANCE,
    HALF_SPACE,
    Reading,
    Readings,
    Shape,
    check_tolerance,
    read_shapes,
)
from quadric.geometry.spectra import SpectrumBatch, padded_table
from quadric.model import Autoencoder, BilinearAutoencoder
from quadric.model.linear import LinearAutoencoder
from quadric.model.storage import weights_sha256

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

    def check_weights(self, autoencoder: Autoencoder) -> None:
        """Raise if this decomposition belongs to other weights."""
        if self.weights_sha256 != weights_sha256(autoencoder):
            raise ValueError(
                f"the geometry is that of other weights ({self.weights_sha256[:12]}); "
                "compute it again with quadric.geometry.dictionary_geometry(autoencoder)"
            )

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
    autoencoder: Autoencoder,
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
    is_linear = isinstance(autoencoder, LinearAutoencoder)
    if isinstance(autoencoder, LinearAutoencoder):
        found, eigenvalues = _directions_part(autoencoder, centring, n_axes)
        on_progress("geometry", autoencoder.n_latents, autoencoder.n_latents, "")
    else:
        found, eigenvalues = _forms_part(require_bilinear(autoencoder), centring, n_axes, tolerance, on_progress)
    return Decomposition(
        weights_sha256=weights_sha256(autoencoder),
        centre_sha256=centring.sha256,
        centre=as_centre(centre) if centre is not None and centring.sha256 else None,
        tolerance=tolerance,
        eigenvalues=eigenvalues,
        support=support(autoencoder).cpu(),
        **found.columns,
        readings=found.readings,
        is_linear=is_linear,
    )


def _forms_part(
    autoencoder: BilinearAutoencoder, centring: Centring, n_axes: int, tolerance: float, on_progress: Progress
) -> tuple["_Part", Float[Tensor, "k r"]]:
    """All latents of a bilinear dictionary, and their eigenvalues."""
    parts: list[_Part] = []
    values: list[tuple[Tensor, Tensor]] = []
    done = 0
    for terms in term_batches(autoencoder, centred_factors(autoencoder, centring)):
        part, own = _decompose_batch(terms, centring, n_axes, tolerance)
        parts.append(part)
        values.append((terms.latents.cpu(), own.cpu()))
        done += len(terms.latents)
        on_progress("geometry", done, autoencoder.n_latents, "")
    return _in_order(parts), padded_table(values, autoencoder.n_latents)


def _directions_part(
    autoencoder: LinearAutoencoder, centring: Centring, n_axes: int, latents: slice = slice(None)
) -> tuple["_Part", Float[Tensor, "b r"]]:
    """Latents of a linear dictionary, and their eigenvalues, of which there are none."""
    found = directions_of(autoencoder, centring.centre, latents)
    frames = direction_frames(found, principal_components(centring.covariance, n_axes), n_axes)
    columns = {
        "axes": frames.axes.float(),
        "axis_quadratic": torch.zeros_like(frames.slopes),
        "axis_linear": frames.slopes,
        "axis_kind": frames.kinds,
        "constant": found.constant,
        "energy": found.writes.square().sum(-1),
    }
    numbers = torch.arange(autoencoder.n_latents)[latents]
    return _Part(numbers, columns, direction_readings(found)), found.constant.new_zeros(len(numbers), 1)


class LatentFrame(NamedTuple):
    """One latent about the centre, as `Decomposition` has it for all; float64."""

    eigenvalues: Float[Tensor, " r"]
    axes: Float[Tensor, "d a"]
    axis_quadratic: Float[Tensor, " a"]
    axis_linear: Float[Tensor, " a"]
    axis_kind: Int[Tensor, " a"]
    linear: Float[Tensor, " d"]
    """c·b, the gradient of z at the centre."""
    constant: float
    curvature: float
    shape: Shape
    centring: Centring

    def with_sign(self, sign: float) -> "LatentFrame":
        """The same latent as −z, if the sign is negative."""
        if sign > 0:
            return self
        shape = self.shape._replace(positive=self.shape.negative, negative=self.shape.positive)
        return self._replace(
            eigenvalues=-self.eigenvalues,
            axis_quadratic=-self.axis_quadratic,
            axis_linear=-self.axis_linear,
            linear=-self.linear,
            constant=-self.constant,
            shape=shape,
        )

    def __repr__(self) -> str:
        return f"LatentFrame({self.shape.kind}, {int((self.axis_kind != NO_AXIS).sum())} axes)"


@torch.no_grad()
def latent_frame(
    autoencoder: Autoencoder, latent: int, n_axes: int = KEPT_AXES, centre: CentreLike | None = None
) -> LatentFrame:
    """The axes and coefficients of one latent, without decomposing the others.

    Args:
        autoencoder: Any dictionary.
        latent: Index of the latent.
        n_axes: Axes to keep.
        centre: As for `decompose`.

    Returns:
        Its eigenvalues, axes, coefficients and shape.

    Example:
        >>> frame = geometry.latent_frame(ae, 3)
        >>> frame.axes.shape[0] == ae.d_model
        True
    """
    centring = centring_of(autoencoder, centre)
    if isinstance(autoencoder, LinearAutoencoder):
        return _direction_frame(autoencoder, latent, centring, n_axes)
    bilinear = require_bilinear(autoencoder)
    atoms, weights = bilinear.mixing.row(latent)
    left, right = (factors[atoms].double() for factors in centred_factors(bilinear, centring))
    return _frame_of(left, right, weights.detach().double().to(left.device), centring, n_axes)


@torch.no_grad()
def form_frame(form: Form, n_axes: int = KEPT_AXES) -> LatentFrame:
    """The axes and coefficients of a form about the origin of its coordinates, without linear part.

    Args:
        form: Such as a sum of latents.
        n_axes: Axes to keep.

    Returns:
        Its eigenvalues, axes, coefficients and shape.

    Example:
        >>> import torch
        >>> form = geometry.Form.of_direction(torch.tensor([1.0, 0.0, 0.0]))
        >>> geometry.form_frame(form).eigenvalues.tolist()
        [1.0]
    """
    d_model = form.d_model
    centring = Centring(torch.zeros(d_model, dtype=torch.float64), 1.0, 1 / d_model, None, False, "")
    left, right = (centring.split(factors.double()) for factors in (form.left, form.right))
    return _frame_of(left, right, form.weights.double(), centring, n_axes)


def _frame_of(left: Tensor, right: Tensor, weights: Tensor, centring: Centring, n_axes: int) -> LatentFrame:
    terms = Terms(torch.zeros(1, dtype=torch.int64), left[None], right[None], weights[None])
    part, values = _decompose_batch(terms, centring, n_axes, DEFAULT_TOLERANCE)
    return _only_frame(part, values, centring.scale * _linear_and_constant(terms)[0][0].cpu(), centring)


def _direction_frame(autoencoder: LinearAutoencoder, latent: int, centring: Centring, n_axes: int) -> LatentFrame:
    only = slice(latent, latent + 1)
    part, values = _directions_part(autoencoder, centring, n_axes, only)
    return _only_frame(part, values, directions_of(autoencoder, centring.centre, only).reads[0], centring)


def _only_frame(part: "_Part", values: Tensor, linear: Tensor, centring: Centring) -> LatentFrame:
    """The frame of the only latent of a part."""
    own = {name: column[0] for name, column in part.columns.items()}
    return LatentFrame(
        eigenvalues=values[0][values[0] != 0].cpu(),
        axes=own["axes"].double(),
        axis_quadratic=own["axis_quadratic"],
        axis_linear=own["axis_linear"],
        axis_kind=own["axis_kind"],
        linear=linear,
        constant=float(own["constant"]),
        curvature=float(part.readings.curvature[0]),
        shape=part.readings.shape_of(0, DEFAULT_TOLERANCE),
        centring=centring,
    )


def centred_spectra(autoencoder: Autoencoder, centre: CentreLike | None = None) -> Iterator[SpectrumBatch]:
    """The eigenpairs of every latent's quadratic part Q, batch by batch; eigenvectors are directions of the token.

    Args:
        autoencoder: A bilinear autoencoder.
        centre: As for `decompose`.

    Yields:
        Latents, eigenvalues (b, r) by |λ| descending and eigenvectors (b, d, r).

    Example:
        >>> sum(len(batch.latents) for batch in geometry.centred_spectra(ae)) == ae.n_latents
        True
    """
    bilinear = require_bilinear(autoencoder)
    for terms in term_batches(bilinear, centred_factors(bilinear, centring_of(bilinear, centre))):
        yield SpectrumBatch(terms.latents, *_quadratic_part(terms))


def leading_axes(
    autoencoder: Autoencoder, n_axes: int, geometry: Decomposition | None = None, *, centre: CentreLike | None = None
) -> Float32[Tensor, "k d a"]:
    """The first axes of every latent, zero beyond what there is; the largest entry of each is positive.

    Args:
        autoencoder: Any dictionary.
        n_axes: Axes per latent.
        geometry: Its decomposition, if it was computed before; it is used if it holds enough axes.
        centre: As for `decompose`; a geometry has its own.

    Returns:
        One column per axis, (k, d, n_axes).

    Example:
        >>> geometry.leading_axes(ae, 3).shape == (ae.n_latents, ae.d_model, 3)
        True
    """
    if geometry is not None:
        geometry.check_weights(autoencoder)
        if (known := geometry.leading(n_axes)) is not None:
            return known
    return decompose(autoencoder, n_axes, centre=centre).axes


class _Part(NamedTuple):
    """Some latents."""

    latents: Tensor
    columns: dict[str, Any]
    """Tensors of `Decomposition` by name."""
    readings: Readings


def _in_order(parts: list[_Part]) -> _Part:
    latents = torch.cat([part.latents for part in parts])
    order = latents.argsort()
    columns = {name: torch.cat([part.columns[name] for part in parts])[order] for name in parts[0].columns}
    readings = zip(*(part.readings for part in parts), strict=True)
    return _Part(latents[order], columns, Readings(*(torch.cat(column)[order] for column in readings)))


def _decompose_batch(terms: Terms, centring: Centring, n_axes: int, tolerance: float) -> tuple[_Part, Tensor]:
    """Latents of equal support, and the eigenvalues of their quadratic parts."""
    linear, constant = _linear_and_constant(terms)
    if centring.at_origin and not n_axes:
        values, directions = _without_rounding(eigenvalues(*_on_v(terms), terms.weights), terms), None
        beta, spread = torch.zeros_like(values), centring.covariance
        assert isinstance(spread, float)
    else:
        values, directions = _quadratic_part(terms)
        beta = (linear[:, None] @ directions)[:, 0]
        spread = _spread(directions, centring.covariance)
    reading = read_shapes(values, beta, constant, centring.scale, spread, tolerance)
    axes, kinds = _frame(directions, values, reading, n_axes) if directions is not None else _no_axes(linear, n_axes)
    within = axes.mT @ directions if directions is not None else axes.new_zeros(len(axes), n_axes, values.shape[1])
    columns = {
        "axes": axes.float(),
        "axis_quadratic": (within.square() * values[:, None]).sum(-1),
        "axis_linear": centring.scale * (linear[:, None] @ axes)[:, 0],
        "axis_kind": kinds,
        "constant": centring.scale**2 * constant,
        "energy": values.square().sum(-1) + linear.square().sum(-1) / 2 + constant.square(),
    }
    on_cpu = {name: column.cpu() for name, column in columns.items()}
    return _Part(terms.latents.cpu(), on_cpu, Readings(*(each.cpu() for each in reading.columns))), values


def _on_v(terms: Terms) -> tuple[Tensor, Tensor]:
    left = terms.left[..., :-1]
    return left, left if terms.right is terms.left else terms.right[..., :-1]


def _quadratic_part(terms: Terms) -> Eigenpairs:
    """Q = Σ_j C_j sym(l_v r_vᵀ)."""
    values, directions = eigenpairs(*_on_v(terms), terms.weights)
    return Eigenpairs(_without_rounding(values, terms), directions)


def _linear_and_constant(terms: Terms) -> tuple[Float[Tensor, "b d"], Float[Tensor, " b"]]:
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


def _no_axes(linear: Tensor, n_axes: int) -> tuple[Tensor, Tensor]:
    return linear.new_zeros(*linear.shape, n_axes), torch.full((len(linear), n_axes), NO_AXIS)


def _frame(
    directions: Float[Tensor, "b d r"], values: Float[Tensor, "b r"], reading: Reading, n_axes: int
) -> tuple[Float[Tensor, "b d a"], Int[Tensor, "b a"]]:
    """The axes of every latent and their kinds."""
    present = values != 0
    # Counted ones first, then other eigenvectors with λ ≠ 0; both parts stay in the order of |λ|.
    rank = torch.where(reading.counted, 0, torch.where(present, 1, 2))
    order = rank.argsort(dim=-1, stable=True)[:, :n_axes]
    chosen = directions.gather(2, order[:, None].expand(-1, directions.shape[1], -1))
    chosen = chosen * present.gather(1, order)[:, None]
    axes = torch.nn.functional.pad(chosen, (0, n_axes - chosen.shape[2]))
    kinds = torch.where((axes != 0).any(1), EIGENVECTOR, NO_AXIS)
    opens = reading.columns.opens.nonzero()[:, 0]
    if len(opens) and n_axes:
        linear = (directions[opens] @ reading.outside[opens, :, None])[..., 0]
        counted = reading.counted[opens].sum(-1)
        place = torch.where(reading.columns.shape[opens] == HALF_SPACE, 0, counted.clamp(max=2))
        axes[opens], kinds[opens] = _with_linear_axis(axes[opens], linear, place)
    return with_fixed_signs(axes), kinds


def _with_linear_axis(
    axes: Float[Tensor, "b d a"], linear: Float[Tensor, "b d"], place: Int[Tensor, " b"]
) -> tuple[Float[Tensor, "b d a"], Int[Tensor, "b a"]]:
    """The axes with a direction inserted at some place, and all that come later made orthogonal to it."""
    n_axes = axes.shape[2]
    numbers = torch.arange(n_axes, device=axes.device)
    before = numbers < place[:, None]
    source = torch.where(before, numbers, (numbers - 1).clamp(min=0))
    shifted = axes.gather(2, source[:, None].expand_as(axes))
    is_linear = numbers == place[:, None]
    shifted = torch.where(is_linear[:, None], linear[..., None], shifted)
    frame = orthonormal(shifted)
    missing = (frame == 0).all(1)
    kinds = torch.where(missing, NO_AXIS, torch.where(is_linear, LINEAR_DIRECTION, EIGENVECTOR))
    order = missing.int().argsort(dim=-1, stable=True)
    return frame.gather(2, order[:, None].expand_as(frame)), kinds.gather(1, order)
