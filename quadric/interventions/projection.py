"""The nearest point at which a form has a given value, in the eigenbasis of the form.

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
        >>> from quadric.interventions.projection import nearest_steps
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
