"""Motion of a token inside a latent's own space: to the nearest point with a given value, and along the level set.

**The nearest point**, in the eigenbasis of the form.

Let λ_j be the eigenvalues and g_j = 2λ_j y_j + β_j the gradient of z at the token with coordinates y. A coordinate in
which z is linear has λ = 0. Moving by d changes z by Σ_j (g_j d_j + λ_j d_j²), so gradient and eigenvalues are all that
is needed, with or without a linear part. To raise z by t > 0 in the shortest way, with ν ≥ max(λ_1, …, λ_m, 0),

    d_j = ½ g_j / (ν − λ_j),    h(ν) = ¼ Σ_j g_j² (2ν − λ_j) / (ν − λ_j)² = t.

h falls from its value at the lower end of ν to 0, so the root is unique. It is the secular equation
Σ_j λ_j ξ_j² / (1 + ηλ_j)² = τ with η = −1/ν. To lower z, raise −z.

- Hard case: h stays below t because g vanishes on the extreme eigenvectors. Then ν = max λ, and the missing length goes
  along the first of them.
- No λ > 0, and no linear part: z has a maximum, at the centre of the quadric, where ν = 0. A larger value is
  unreachable.

**Along the level set** z stays the same. About the centre of the quadric, scaled by √|λ|, the coordinates are
p_j = √|λ_j| (y_j − y0_j), and a level set is Σ_j sign(λ_j) p_j² = const. The one-parameter groups exp(tA) with
AᵀW + WA = 0 in a plane of two axes are

    equal signs      a rotation of (p_i, p_j) by the angle t
    opposite signs   a boost of (p_i, p_j) by the rapidity t
    λ_j = 0          p_i grows by t, and the linear coordinate follows the parabola

Gradient and eigenvalues give the distance from the centre: y_j − y0_j = g_j / 2λ_j.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LARGEST_NUMBER_OF_STEPS = 200
"""Newton steps and bisections together; about ten are typical."""
ENOUGH = 1e-14
"""Relative error of the rise, or of the bracket, at which the iteration stops."""
ROUNDING = 1e-9
"""Share by which a value may exceed the largest reachable one and still count as equal to it."""


class Projection(NamedTuple):
    """Shortest steps to a given value."""

    steps: Float[Tensor, "n m"]
    """d; leads to the centre of the quadric where the value is unreachable."""
    reached: Bool[Tensor, " n"]


class Reach(NamedTuple):
    """Values of z that a token can be moved to, smallest and largest."""

    low: Float[Tensor, " n"]
    high: Float[Tensor, " n"]


def nearest_steps(
    eigenvalues: Float[Tensor, " m"], gradient: Float[Tensor, "n m"], rise: Float[Tensor, " n"]
) -> Projection:
    """The shortest steps that change z by `rise`.

    Args:
        eigenvalues: λ, in any order; zero for a coordinate in which z is linear.
        gradient: g of every token, in float64.
        rise: τ − z of every token.

    Returns:
        The steps, and whether they reach the value.

    Example:
        >>> from quadric.interventions.motion import nearest_steps
        >>> circle, token = torch.ones(2).double(), torch.tensor([[3.0, 4.0]]).double()
        >>> nearest_steps(circle, 2 * token, torch.tensor([75.0]).double()).steps  # from radius 5 to 10
        tensor([[3., 4.]], dtype=torch.float64)
    """
    if not eigenvalues.numel():
        return Projection(torch.zeros_like(gradient), rise == 0)
    sign = torch.where(rise < 0, -1.0, 1.0).to(gradient)[:, None]
    raised, slope, t = sign * eigenvalues, sign * gradient, rise.abs()
    floor = raised.amax(-1, keepdim=True).clamp(min=0)
    gaps, weights = floor - raised, slope.square()
    most = _gain(gaps, weights, floor, torch.zeros_like(floor))
    inside = (t > 0) & (t < most)
    shift = torch.zeros_like(floor)
    if inside.any():
        shift[inside] = _root(gaps[inside], weights[inside], floor[inside], t[inside])
    steps = torch.where(weights == 0, 0, slope / torch.where(weights == 0, 1, 2 * (gaps + shift)))
    hard = (t > 0) & ~inside & (floor[:, 0] > 0)
    if hard.any():
        missing = (t - most)[hard].clamp(min=0) / floor[hard, 0]
        extreme = raised[hard].argmax(-1, keepdim=True)
        steps[hard] = steps[hard].scatter_add(1, extreme, missing.sqrt()[:, None])
    steps = torch.where(t[:, None] > 0, steps, 0)
    return Projection(steps, (floor[:, 0] > 0) | (t <= most * (1 + ROUNDING)))


def reach(eigenvalues: Float[Tensor, " m"], gradient: Float[Tensor, "n m"], value: Float[Tensor, " n"]) -> Reach:
    """Values that z can take when the coordinates move: bounded by z at the centre if the form is definite."""
    return Reach(value - _most(-eigenvalues, gradient), value + _most(eigenvalues, gradient))


def _most(eigenvalues: Tensor, gradient: Tensor) -> Tensor:
    """By how much z can rise."""
    if bool((eigenvalues > 0).any()):
        return gradient.new_full((len(gradient),), torch.inf)
    floor = gradient.new_zeros(len(gradient), 1)
    return _gain(-eigenvalues.expand_as(gradient), gradient.square(), floor, floor)


def _gain(gaps: Tensor, weights: Tensor, floor: Tensor, shift: Tensor) -> Float[Tensor, " n"]:
    """h(ν) at ν = floor + shift: written with gaps = floor − λ, so that nothing cancels close to the pole."""
    distance = gaps + shift
    return (_ratio(weights, distance) + _ratio(weights * (floor + shift), distance.square())).sum(-1) / 4


def _root(gaps: Tensor, weights: Tensor, floor: Tensor, t: Tensor) -> Float[Tensor, "n 1"]:
    """The shift of ν at which h = t: Newton steps on h^(−½), which is nearly linear, inside a shrinking bracket."""
    low = _bound((weights * (gaps == 0)).sum(-1, keepdim=True), floor, t[:, None])
    high = _bound(weights.sum(-1, keepdim=True), floor, t[:, None])
    shift = _middle(low, high)
    for count in range(LARGEST_NUMBER_OF_STEPS):
        gain = _gain(gaps, weights, floor, shift)[:, None]
        low, high = torch.where(gain > t[:, None], shift, low), torch.where(gain > t[:, None], high, shift)
        exact = (gain - t[:, None]).abs() <= ENOUGH * t[:, None]
        if bool((exact | (high - low <= ENOUGH * high)).all()):
            break
        slope = -_ratio(weights * (floor + shift), (gaps + shift) ** 3).sum(-1, keepdim=True) / 2
        newton = shift + 2 * gain * (1 - (gain / t[:, None]).sqrt()) / slope
        usable = (newton > low) & (newton < high) & (count % 16 < 15)  # a bisection now and then, in case Newton creeps
        shift = torch.where(exact, shift, torch.where(usable, newton, _middle(low, high)))
    return shift


def _bound(weight: Tensor, floor: Tensor, t: Tensor) -> Tensor:
    """The root if all gradient were on the extreme eigenvectors: ¼ weight (2/ρ + floor/ρ²) = t."""
    return (weight / 2 + (weight.square() / 4 + t * weight * floor).sqrt()) / (2 * t)


def _middle(low: Tensor, high: Tensor) -> Tensor:
    return torch.where(low > 0, low.sqrt() * high.sqrt(), (low + high) / 2)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """The ratio, with 0/0 = 0: a coordinate without gradient adds nothing."""
    return torch.where(above == 0, 0, above / torch.where(above == 0, 1, below))


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
