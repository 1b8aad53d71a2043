"""Ways of steering: the latent's own quadric, and the baselines that it must be compared with.

A method turns a dose into a function of activations (n, d). The dose of the quadric is the value of z. Directions are
added in units of the token's norm, x + ‖x‖·dose·direction. The dose of a clamped TopK latent is its activation, in the
same units. A random quadric goes from the median of its values by the dose times the distance of the wanted z from the
median of z.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from quadric.interventions.axes import Axes
from quadric.interventions.combining import Intervention, unit_and_norm
from quadric.interventions.latents import Latent, clamp
from quadric.interventions.motion import nearest_steps
from quadric.model import Dictionary
from quadric.model.devices import exact
from quadric.model.linear import LinearAutoencoder
from quadric.model.objective import unit_tokens

Change = Callable[[Tensor], Tensor]
"""From activations (n, d) to changed ones."""

LENGTHS = (0.0, 0.05, 0.15, 0.4, 1.0)
"""Doses of directions that the search for a matching one starts from."""
SHARES = (0.0, 0.5, 1.0, 3.0, 10.0)
"""The same for a random quadric."""
FEWEST_FIRING = 20


@dataclass(frozen=True)
class Method:
    """One way of steering."""

    name: str
    at: Callable[[float], Change]
    """From a dose to what happens to activations."""
    doses: tuple[float, ...]
    """Doses to look for a matching one between, ascending."""
    zero_is_nothing: bool = False
    """Whether dose 0 changes nothing, so that it need not be tried."""


def quadric_path(latent: Latent) -> Method:
    """The nearest point at which z has the value of the dose."""
    return Method("quadric", lambda dose: latent.project(to=dose), ())


def baselines(
    latent: Latent,
    corpus: Float[Tensor, "n d"],
    fires: Bool[Tensor, " n"],
    to: float,
    seed: int,
    topk: LinearAutoencoder | None = None,
) -> list[Method]:
    """What the quadric is compared with.

    Args:
        latent: The latent.
        corpus: Activations of a corpus.
        fires: On which of them the latent fires.
        to: Value of z to which the quadric steers, which sets the scale of the random one.
        seed: Of the random direction and of the random quadric.
        topk: A linear dictionary of the same hook point.

    Returns:
        Straight line along the leading eigenvector, difference of means, the best TopK latent if there is a dictionary,
        random direction, random quadric of the same spectrum.
    """
    generator = torch.Generator().manual_seed(seed)
    difference = mean_difference(corpus, fires)
    leading = latent.axes.basis[:, 0]
    along = leading * (1.0 if float(leading @ difference) >= 0 else -1.0)
    chance = torch.randn(len(leading), generator=generator, dtype=torch.float64)
    found = [added("leading eigenvector", along), added("difference of means", difference)]
    if topk is not None:
        found.append(clamped(topk, best_topk_latent(topk, corpus, fires)))
    return [*found, added("random direction", chance), random_quadric(latent, corpus, to, generator)]


def firing(latent: Latent, corpus: Float[Tensor, "n d"], rest: float, threshold: float, to: float) -> Tensor:
    """Tokens on which the latent fires on the side of `to`: beyond the threshold, or else the strongest few."""
    above = (latent.value(corpus) - rest) * (1.0 if to >= rest else -1.0)
    strongest = above.topk(min(FEWEST_FIRING, len(above))).values[-1]
    return above >= min(threshold, float(strongest))


def mean_difference(corpus: Float[Tensor, "n d"], fires: Bool[Tensor, " n"]) -> Float[Tensor, " d"]:
    """Mean of the unit tokens on which the latent fires, minus the mean of the others."""
    unit, fires = unit_tokens(corpus).cpu().double(), fires.cpu()
    return unit[fires].mean(0) - unit[~fires].mean(0)


def best_topk_latent(topk: LinearAutoencoder, corpus: Float[Tensor, "n d"], fires: Bool[Tensor, " n"]) -> int:
    """The linear latent whose activation correlates most with the firing of the quadratic one."""
    with torch.no_grad():
        values = torch.cat([topk.encode(topk.prepare(part)).cpu().double() for part in torch.split(corpus, 2048)])
    values = values - values.mean(0)
    wanted = fires.cpu().double() - fires.cpu().double().mean()
    covariance = wanted @ values
    return int((covariance / values.norm(dim=0).clamp(min=1e-12)).argmax())


def added(name: str, direction: Float[Tensor, " d"]) -> Method:
    """A fixed direction, the same for every token."""
    unit = direction / direction.norm()

    def at(dose: float) -> Change:
        return lambda x: x + (dose * exact(x).norm(dim=-1, keepdim=True).cpu() * unit).to(x)

    return Method(name, at, LENGTHS, zero_is_nothing=True)


def clamped(topk: LinearAutoencoder, latent: int) -> Method:
    """One latent of a linear dictionary set to the dose, in units of the token's norm. Its error stays."""
    return Method("TopK latent", lambda dose: clamp(topk, latent, dose, in_norms=True), LENGTHS)


def random_quadric(latent: Latent, corpus: Float[Tensor, "n d"], to: float, generator: torch.Generator) -> Method:
    """The same form turned by a random rotation about the centre: same spectrum, other axes."""
    axes = rotated(latent.axes, generator)
    unit, _ = unit_and_norm(corpus, corpus.shape[1])
    median = float(axes.to(unit.device).place(unit).value.median())
    own = float(latent.value(corpus).median())

    def at(dose: float) -> Change:
        return project_along(latent.autoencoder, axes, median + dose * (to - own))

    return Method("random quadric", at, SHARES)


def rotated(axes: Axes, generator: torch.Generator) -> Axes:
    """The axes and the form of a latent, turned by a random rotation of v."""
    rotation = random_rotation(len(axes.basis), axes.centring.direction, generator)
    left, right = (
        torch.cat([factors[:, :-1] @ rotation.mT, factors[:, -1:]], dim=1) for factors in (axes.left, axes.right)
    )
    return axes._replace(basis=rotation @ axes.basis, left=left, right=right)


def random_rotation(d: int, fixed: Float[Tensor, " d"] | None, generator: torch.Generator) -> Float[Tensor, "d d"]:
    """A random orthogonal matrix that leaves a direction as it is, if one is given: the mean of a raw dictionary."""
    size = d if fixed is None else d - 1
    turned: Tensor = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    if fixed is None:
        return turned
    unit = (fixed / fixed.norm()).double().cpu()
    across: Tensor = torch.linalg.svd(unit[None]).Vh[1:]
    rotation: Tensor = across.mT @ turned @ across + unit.outer(unit)
    return rotation


def project_along(autoencoder: Dictionary, axes: Axes, to: float) -> Intervention:
    """Projection to a value of a form that is not one of the dictionary; as near as it gets where it is unreachable."""
    return Intervention(
        autoencoder,
        -1,
        axes,
        f"project(to={to:g})",
        lambda placed, own: nearest_steps(own.eigenvalues, placed.gradient, to - placed.value).steps,
    )
