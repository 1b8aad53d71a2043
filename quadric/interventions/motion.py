"""Motion along a level set: z stays the same while the token moves inside the latent's own space.

About the centre of the quadric, scaled by √|λ|, the coordinates are p_j = √|λ_j| (y_j − y0_j), and a level set is
Σ_j sign(λ_j) p_j² = const. The one-parameter groups exp(tA) with AᵀW + WA = 0 in a plane of two axes are

    equal signs      a rotation of (p_i, p_j) by the angle t
    opposite signs   a boost of (p_i, p_j) by the rapidity t
    λ_j = 0          p_i grows by t, and the linear coordinate follows the parabola

Gradient and eigenvalues give the distance from the centre: y_j − y0_j = g_j / 2λ_j.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def slide_steps(
    eigenvalues: Float[Tensor, " m"], gradient: Float[Tensor, "n m"], by: float, axes: tuple[int, int]
) -> Float[Tensor, "n m"]:
    """Steps that slide every token along its level set, in the plane of two axes.

    Args:
        eigenvalues: λ; zero for a coordinate in which z is linear.
        gradient: g of every token, in float64.
        by: Angle (axes of equal sign), rapidity (opposite signs), or length in units of 1/√|λ| (a linear axis).
        axes: The two axes. For equal signs, the motion is from the first towards the second.

    Returns:
        The steps; zero outside the plane.

    Example:
        >>> circle, token = torch.ones(2).double(), torch.tensor([[1.0, 0.0]]).double()
        >>> step = slide_steps(circle, 2 * token, torch.pi / 2, (0, 1))
        >>> (token + step).round()
        tensor([[0., 1.]], dtype=torch.float64)
    """
    first, second = axes
    if eigenvalues[first] == 0:
        first, second = second, first
    steps = torch.zeros_like(gradient)
    if eigenvalues[second] == 0:
        length = by * float(eigenvalues[first].abs().rsqrt())
        steps[:, first] = length
        steps[:, second] = -(gradient[:, first] * length + eigenvalues[first] * length**2) / gradient[:, second]
        return steps
    size = eigenvalues.abs().sqrt()
    p, q = (_centred(eigenvalues, gradient)[:, axis] * size[axis] for axis in (first, second))
    angle = torch.tensor(by, dtype=torch.float64)
    if bool(eigenvalues[first] * eigenvalues[second] > 0):
        even, odd, back = -2 * (angle / 2).sin().square(), angle.sin(), -angle.sin()  # cos − 1, sin, −sin
    else:
        even, odd, back = 2 * (angle / 2).sinh().square(), angle.sinh(), angle.sinh()  # cosh − 1, sinh, sinh
    steps[:, first] = (even * p + back * q) / size[first]
    steps[:, second] = (odd * p + even * q) / size[second]
    return steps


def path_steps(
    eigenvalues: Float[Tensor, " m"], gradient: Float[Tensor, "n m"], across: Float[Tensor, "n m"], share: float
) -> Float[Tensor, "n m"]:
    """Steps to a point on the way between two points of one level set.

    The scaled coordinates p split into those with λ > 0 and those with λ < 0. With q = |p₊|² − |p₋|²:

    - q > 0: |p₊| = √q cosh χ and |p₋| = √q sinh χ. The direction of p₊ follows a great circle, and the vector of length
      χ along p₋ a straight line; an ellipsoid has only the first, a two-dimensional hyperboloid is a boost. q < 0:
      exchanged.
    - q = 0: the cone has no other connection than through its apex.
    - With a linear coordinate, the level set is a graph over the others: they go straight, and the linear one follows.

    Args:
        eigenvalues: λ; zero for a coordinate in which z is linear.
        gradient: g of every token, in float64.
        across: Difference of the coordinates of the end and the start.
        share: Of the way, from 0 to 1.

    Returns:
        The steps from the start. NaN where no path exists: the ends are on different sheets of a hyperboloid, or
        exactly opposite on an ellipsoid, where every great circle is as good as the next.
    """
    if share == 0 or not bool(across.any()):
        return torch.zeros_like(across)
    linear = eigenvalues == 0
    if bool(linear.any()):
        return _graph_steps(eigenvalues, gradient, across, share, linear)
    size = eigenvalues.abs().sqrt()
    start = _centred(eigenvalues, gradient) * size
    end = start + across * size
    point = torch.zeros_like(start)
    up = eigenvalues > 0
    level = start.square() @ eigenvalues.sign()
    cone = level.abs() <= 1e-12 * start.square().sum(-1)
    for rows, outer in (((level > 0) & ~cone, up), ((level < 0) & ~cone, ~up)):
        if rows.any():
            point[rows] = _on_hyperboloid(start[rows], end[rows], level[rows].abs().sqrt(), outer, share)
    through_apex = start * (1 - 2 * share) if share < 0.5 else end * (2 * share - 1)
    point = torch.where(cone[:, None], through_apex, point)
    return torch.where(across.any(-1, keepdim=True), (point - start) / size, 0)


def _centred(eigenvalues: Tensor, gradient: Tensor) -> Tensor:
    """y − y0, zero where z is linear."""
    return torch.where(eigenvalues == 0, 0, gradient / torch.where(eigenvalues == 0, 1, 2 * eigenvalues))


def _graph_steps(eigenvalues: Tensor, gradient: Tensor, across: Tensor, share: float, linear: Tensor) -> Tensor:
    steps = torch.where(linear, 0, share * across)
    change = (gradient * steps + eigenvalues * steps.square()).sum(-1, keepdim=True)
    return torch.where(linear, -change / gradient, steps)


def _on_hyperboloid(start: Tensor, end: Tensor, radius: Tensor, outer: Tensor, share: float) -> Tensor:
    """The point on the way, where the coordinates `outer` have the larger norm."""
    point = torch.zeros_like(start)
    first, last = _rapidity(start[:, ~outer], radius), _rapidity(end[:, ~outer], radius)
    rapidity = first + share * (last - first)
    length = rapidity.norm(dim=-1, keepdim=True)
    unit = rapidity / torch.where(length == 0, 1, length)
    point[:, ~outer] = radius[:, None] * length.sinh() * unit
    point[:, outer] = radius[:, None] * length.cosh() * _great_circle(start[:, outer], end[:, outer], share)
    return point


def _rapidity(inner: Tensor, radius: Tensor) -> Tensor:
    """The vector of length χ along p₋, with |p₋| = √q sinh χ."""
    length: Tensor = inner.norm(dim=-1, keepdim=True)
    return inner * ((length / radius[:, None]).asinh() / torch.where(length == 0, 1, length))


def _great_circle(start: Tensor, end: Tensor, share: float) -> Tensor:
    """Unit vectors on the way from one direction to another; NaN if they are opposite."""
    a, b = (x / x.norm(dim=-1, keepdim=True) for x in (start, end))
    aside = b - (a * b).sum(-1, keepdim=True) * a
    length = aside.norm(dim=-1, keepdim=True)
    angle = torch.atan2(length, (a * b).sum(-1, keepdim=True))
    opposite = (length <= 1e-12) & (angle > 1)
    turned = (share * angle).cos() * a + (share * angle).sin() * aside / torch.where(length == 0, 1, length)
    return torch.where(opposite, torch.nan, turned)
