"""Several interventions at once, each computed from the original activation.

Intervention i asks that the coordinates on its own axes U_i change by s_i. The joint change δ is the smallest one that
grants this in the least-squares sense, δ = [U_1, U_2, …]ᵀ⁺ [s_1, s_2, …]. So the order does not matter, and

- where the latents' spaces are linearly independent, orthogonal or not, every latent gets exactly what it asks for;
- where spaces overlap, the common part moves once, not once per latent: ablating two copies of one latent is ablating
  it, and ablating any latents removes exactly the span of all their axes;
- where latents ask for different changes of one direction, it gets a compromise, and z is not exact.

To apply interventions one after the other instead, nest two `with quadric.intervene(…)`, or call one on the result of
the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from quadric.interventions.axes import Axes, Placed
from quadric.model import Dictionary, check_tokens
from quadric.model.devices import Rows, device_of, exact, rows_on

SAME_DIRECTION = 0.1
"""Relative size of a singular value of [U_1, U_2, …] below which directions count as one: angles of about 8°. Granting
different wishes in nearly the same direction would take huge changes."""


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """What to do to every activation; `quadric.intervene` puts it into a language model.

    Example:
        >>> import quadric
        >>> ae = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> remove = ae.latent(3).ablate()
        >>> remove(torch.randn(5, 8)).shape
        torch.Size([5, 8])
    """

    autoencoder: Dictionary
    index: int
    """Of the latent."""
    axes: Axes
    """Of the latent."""
    description: str
    move: Callable[[Placed, Axes], Tensor]
    """From tokens on the latent's axes to the change of their coordinates."""

    def __repr__(self) -> str:
        return f"latent({self.index}).{self.description}"

    def __call__(self, x: Rows) -> Tensor:
        """Activations (n, d) with the intervention applied."""
        return Combination([self])(x)

    def change(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
        """Change of the coordinates of unit tokens on the latent's axes."""
        axes = self.axes.to(unit.device)
        changed = self.move(axes.place(unit), axes)
        if not bool(changed.isfinite().all()):
            raise ValueError(f"{self} moves a token beyond all bounds; use a smaller value")
        return changed


class Combination:
    """One or several interventions on the same activations.

    Args:
        interventions: At least one; their dictionaries may differ, but read tokens of one width.

    Example:
        >>> from quadric.interventions import Combination
        >>> import quadric
        >>> ae = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> both = Combination([ae.latent(1).project(to=0.5), ae.latent(2).ablate()])
        >>> both(torch.randn(5, 8)).shape
        torch.Size([5, 8])
    """

    def __init__(self, interventions: Sequence[Intervention]) -> None:
        self.interventions = list(interventions)
        widths = {each.autoencoder.d_model for each in self.interventions}
        if len(widths) != 1:
            raise ValueError(f"interventions on activations of widths {sorted(widths)}; give latents of one hook point")
        (self.d_model,) = widths
        bases = torch.cat([each.axes.basis for each in self.interventions], dim=1)
        # The axes of one latent are orthonormal: their transpose is the inverse, exactly.
        several = len(self.interventions) > 1
        self._back = torch.linalg.pinv(bases, rtol=SAME_DIRECTION) if several else bases.mT

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.interventions))

    @torch.no_grad()
    def change(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """δ of unit tokens, in float64."""
        asked = torch.cat([each.change(unit) for each in self.interventions], dim=1)
        return asked @ self._back.to(unit.device)

    def __call__(self, x: Rows) -> Tensor:
        """x + ‖x‖δ in the precision of x; gradients pass through x as if δ were constant."""
        x = rows_on(x, device_of(self.interventions[0].autoencoder))
        unit, norms = unit_and_norm(x, self.d_model)
        change = self.change(unit)
        moves = change.any(dim=-1, keepdim=True).to(x.device)
        return torch.where(moves, x + (norms * change).to(x), x)  # adding zero would lose the sign of a zero


def unit_and_norm(x: Tensor, d_model: int) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n 1"]]:
    """Unit tokens and their norms, in float64."""
    check_tokens(x, d_model)
    tokens = exact(x.detach())
    norms = tokens.norm(dim=-1, keepdim=True)
    return tokens / norms, norms
