"""The shapes of latents: one vocabulary, one rule for what counts, one tolerance.

A latent is z = vᵀQv + c·bᵀv + c²a about a centre. Its shape is that of the simplest quadric that keeps nearly all of
the variance of z over the tokens, were they Gaussian: an eigenpair (λ_j, q_j) of Q contributes 2(λ_j·Var(q_j·v))². The
eigenpairs that count are the fewest that leave out at most the tolerance of the variance of z; none count where the
whole quadratic part has less. The level sets open along b_⊥, the part of b outside their span, unless it has less too.

| eigenvalues that count | closed            | opens along b_⊥       |
|------------------------|-------------------|-----------------------|
| none                   | constant or empty | half-space            |
| one                    | slab              | elliptic paraboloid   |
| several of one sign    | ellipsoid         | elliptic paraboloid   |
| both signs             | hyperboloid       | hyperbolic paraboloid |

W and −W give the same autoencoder (z_i W_i does not change), so a semidefinite form is a slab or an ellipsoid whatever
its sign; the sign is recorded.
"""

from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

QuadricShape = Literal[
    "empty",
    "constant",
    "half-space",
    "slab",
    "ellipsoid",
    "hyperboloid",
    "elliptic paraboloid",
    "hyperbolic paraboloid",
]
SHAPES: tuple[QuadricShape, ...] = get_args(QuadricShape)
EMPTY, CONSTANT, HALF_SPACE, SLAB, ELLIPSOID, HYPERBOLOID, ELLIPTIC_PARABOLOID, HYPERBOLIC_PARABOLOID = range(8)

DEFAULT_TOLERANCE = 0.01
"""Share of the variance of z that each part left out of the shape may have: the eigenvalues that do not count, and the
linear part outside the span of those that do."""


class Shape(NamedTuple):
    """What {z = τ} looks like in the latent's own subspace."""

    kind: QuadricShape
    positive: int
    """Number of positive eigenvalues that count."""
    negative: int
    """Number of negative eigenvalues that count."""
    opens: bool
    """Whether the level sets open along the linear part: half-spaces and paraboloids."""
    round: bool
    """Whether all |λ| that count are equal, within the tolerance."""
    tolerance: float
    """Share of the variance of z that each part left out of the shape may have."""

    @property
    def dimension(self) -> int:
        """Dimension of the latent's own subspace; the shape extends without limit along all other directions."""
        return self.positive + self.negative + self.opens

    @property
    def sign(self) -> int:
        """+1 or −1 if all eigenvalues that count have that sign, 0 for both signs or none."""
        return (self.positive > 0) - (self.negative > 0)

    @property
    def figure(self) -> str:
        """The specific name where there is one: circle, ellipse, sphere, hyperbola, parabola; else the kind."""
        if self.kind == "ellipsoid" and self.dimension <= 3:
            names = {2: ("ellipse", "circle"), 3: ("ellipsoid", "sphere")}
            return names[self.dimension][self.round]
        if self.dimension == 2:
            return {"hyperboloid": "hyperbola", "elliptic paraboloid": "parabola"}.get(self.kind, self.kind)
        return self.kind


class Readings(NamedTuple):
    """The shapes of some latents, as columns."""

    shape: Int[Tensor, " k"]
    """Index into SHAPES."""
    curvature: Float[Tensor, " k"]
    """Share of the variance of z that no linear function explains, were the tokens Gaussian; 0 for a constant."""
    positive: Int[Tensor, " k"]
    negative: Int[Tensor, " k"]
    opens: Bool[Tensor, " k"]
    round: Bool[Tensor, " k"]

    def shape_of(self, latent: int, tolerance: float) -> Shape:
        """The shape of one of them."""
        return Shape(
            SHAPES[int(self.shape[latent])],
            int(self.positive[latent]),
            int(self.negative[latent]),
            bool(self.opens[latent]),
            bool(self.round[latent]),
            tolerance,
        )


class Reading(NamedTuple):
    """The shapes of a batch of latents, and which part of each makes up its shape."""

    columns: Readings
    counted: Bool[Tensor, "b r"]
    """Eigenvalues that count."""
    outside: Float[Tensor, "b r"]
    """b_⊥ in the eigenbasis; zero where the level sets do not open."""


def read_shapes(
    eigenvalues: Float[Tensor, "b r"],
    linear: Float[Tensor, "b r"],
    constant: Float[Tensor, " b"],
    scale: float,
    spread: Float[Tensor, "b r r"] | float,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Reading:
    """The shapes of latents z = Σλ_jξ_j² + c·Σβ_jξ_j + c²a in coordinates ξ_j = q_j·v of a basis that holds b.

    Args:
        eigenvalues: λ of Q.
        linear: β = Uᵀb, b in the eigenbasis U; eigenvectors with λ = 0 are part of it.
        constant: a.
        scale: c.
        spread: Covariance of ξ, or one variance for all of them.
        tolerance: Share of the variance of z that each part left out of the shape may have.

    Returns:
        Shape and curvature of every latent, and which part of it they are made of.
    """
    check_tolerance(tolerance)
    variances = spread if isinstance(spread, float) else spread.diagonal(dim1=-2, dim2=-1)
    curved = 2 * _quadratic_variance(eigenvalues, spread)
    total = curved + scale**2 * _variance(linear, spread)
    curvature = torch.where(total > 0, curved / torch.where(total > 0, total, 1), 0)
    own = 2 * (eigenvalues * variances).square()  # what correlation adds belongs to no single eigenvalue
    counted = largest_shares(own, tolerance * total) & (curvature > tolerance)[:, None]
    outside = torch.where(counted, 0, linear)
    opens = scale**2 * _variance(outside, spread) > tolerance * total
    sizes = torch.where(counted, eigenvalues.abs(), 0)
    smallest = torch.where(counted, eigenvalues.abs(), torch.inf)
    is_round = counted.any(-1) & (_extreme(smallest, least=True) >= (1 - tolerance) * _extreme(sizes))
    positive, negative = (counted & (eigenvalues > 0)).sum(-1), (counted & (eigenvalues < 0)).sum(-1)
    shape = _shape_index(positive, negative, opens, constant)
    columns = Readings(shape, curvature, positive, negative, opens, is_round)
    return Reading(columns, counted, torch.where(opens[:, None], outside, 0))


def largest_shares(weights: Float[Tensor, "b r"], left_out: Float[Tensor, " b"]) -> Bool[Tensor, "b r"]:
    """The fewest weights, largest first, such that the others sum to at most `left_out`; zeros never count."""
    ordered = weights.sort(dim=-1, descending=True, stable=True)
    from_here_on = ordered.values.flip(-1).cumsum(-1).flip(-1)  # summed from the smallest, so that none is lost
    needed = (from_here_on > left_out[:, None]) & (ordered.values > 0)
    return torch.zeros_like(needed).scatter(-1, ordered.indices, needed)


def _quadratic_variance(eigenvalues: Tensor, spread: Tensor | float) -> Tensor:
    """tr QΣQΣ."""
    if isinstance(spread, float):
        return spread**2 * eigenvalues.square().sum(-1)
    return (eigenvalues[:, :, None] * eigenvalues[:, None, :] * spread.square()).sum((-1, -2))


def _variance(linear: Tensor, spread: Tensor | float) -> Tensor:
    """βᵀΣβ."""
    if isinstance(spread, float):
        return spread * linear.square().sum(-1)
    return ((spread @ linear[..., None])[..., 0] * linear).sum(-1)


def _extreme(values: Tensor, *, least: bool = False) -> Tensor:
    if not values.shape[-1]:
        return values.new_zeros(len(values))
    return values.amin(-1) if least else values.amax(-1)


def _shape_index(positive: Tensor, negative: Tensor, opens: Tensor, constant: Tensor) -> Int[Tensor, " b"]:
    n_counted, both = positive + negative, (positive > 0) & (negative > 0)
    closed = torch.where(both, HYPERBOLOID, torch.where(n_counted == 1, SLAB, ELLIPSOID))
    open_ = torch.where(both, HYPERBOLIC_PARABOLOID, ELLIPTIC_PARABOLOID)
    flat = torch.where(opens, HALF_SPACE, torch.where(constant != 0, CONSTANT, EMPTY))
    return torch.where(n_counted == 0, flat, torch.where(opens, open_, closed))


def shape_of(eigenvalues: Float[Tensor, " r"], tolerance: float = DEFAULT_TOLERANCE) -> Shape:
    """The shape of a form without linear part, from its eigenvalues in any order.

    Args:
        eigenvalues: λ of the form.
        tolerance: Share of Σλ² that the shape may leave out.

    Returns:
        slab, ellipsoid, hyperboloid or empty, with its signature.

    Example:
        >>> from quadric.geometry import shape_of
        >>> shape_of(torch.tensor([2.0, 2.0])).figure
        'circle'
    """
    values = eigenvalues.double()[None]
    columns = read_shapes(values, torch.zeros_like(values), values.new_zeros(1), 1.0, 1.0, tolerance).columns
    return columns.shape_of(0, tolerance)


def check_tolerance(tolerance: float) -> None:
    """Raise unless the tolerance is a share below one."""
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"tolerance={tolerance} is not in [0, 1); it is a share of the variance, e.g. {DEFAULT_TOLERANCE}"
        )
