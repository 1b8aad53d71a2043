"""`ae.latent(i)`: project, slide, ablate and scale along one latent, on activations or as an intervention in a model.

All of them find a change δ of the unit token u = x/‖x‖ inside the latent's own space and return x + ‖x‖δ. Everything
outside that space is untouched, and so is a token without change, to the bit. z is that of the unit token, and of the
result at the norm of the original: z(x + ‖x‖δ) means z of u + δ. The result has another norm than x, so its own unit
token, and z of that, differ slightly.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, overload, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from quadric._io.records import check_choice
from quadric.geometry.centring import CentreLike
from quadric.geometry.dictionary import check_forms
from quadric.interventions.axes import Axes, Placed, latent_axes
from quadric.interventions.combining import Intervention, unit_and_norm
from quadric.interventions.motion import Reach, nearest_steps, path_steps, reach, slide_steps
from quadric.model import Dictionary, check_tokens
from quadric.model.devices import Rows, device_of, exact, rows_on
from quadric.model.forms import Directions
from quadric.model.linear import token_scale

Target = float | Tensor | Callable[[Tensor], Tensor]
"""A value of z for all tokens, one for each, or a function from the present z to the wanted one."""
Ablation = Literal["zero", "mean", "rest"]
Unreachable = Literal["raise", "nearest"]


@runtime_checkable
class HasCalibration(Protocol):
    """Evidence, of which only the signs and medians of the latents are read."""

    @property
    def calibration(self) -> Any: ...


class Latent:
    """One latent of a dictionary, to move activations along. Made by `BilinearAutoencoder.latent`.

    Args:
        autoencoder: A bilinear autoencoder.
        index: Of the latent.
        centre: Mean of the unit tokens that a raw dictionary reads; by default forms are about the origin. An affine
            lens has its own, which is used.
        tolerance: Share of Σ|λ| that the axes may leave out; those axes do not move.

    Example:
        >>> import quadric
        >>> ae = quadric.BilinearAutoencoder(d_model=8, n_latents=16, prior="atomic")
        >>> x = torch.randn(5, 8)
        >>> moved = ae.latent(3).project(x, to=0.5)
        >>> torch.allclose(ae.latent(3).value(moved, norms=x.norm(dim=1)), torch.tensor(0.5).double(), atol=1e-5)
        True
    """

    def __init__(
        self, autoencoder: Dictionary, index: int, centre: CentreLike | None = None, tolerance: float = 0.0
    ) -> None:
        self.autoencoder = check_forms(autoencoder)
        self.index = index
        self.axes = latent_axes(self.autoencoder, index, centre, tolerance)
        """Its axes, by |λ| descending; the last one is that of the linear part if λ = 0."""
        if not self.axes.eigenvalues.numel():
            raise ValueError(
                f"latent {index} is empty: its value is the same for every token, so nothing can move it; choose "
                "another, see the column shape of quadric.latents(ae)"
            )

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3g}" for value in self.axes.eigenvalues[:5].tolist())
        more = ", …" if len(self.axes.eigenvalues) > 5 else ""
        return f"Latent {self.index} of {self.autoencoder.n_latents} (λ = {shown}{more})"

    def value(self, x: Rows, norms: Float[Tensor, " n"] | None = None) -> Float[Tensor, " n"]:
        """z of the unit tokens, in float64, with the sign of the weights.

        Args:
            x: Activations (n, d).
            norms: What to divide them by; by default their own norms. For the result of an intervention, give the norms
                of the original activations.

        Returns:
            z of every token.
        """
        x = rows_on(x, device_of(self.autoencoder))
        check_tokens(x, self.autoencoder.d_model)
        tokens = exact(x.detach())
        scale = tokens.norm(dim=-1) if norms is None else norms.to(tokens)
        return self.axes.to(tokens.device).place(tokens / scale[:, None]).value

    def reach(self, x: Rows) -> Reach:
        """The smallest and the largest z that each token can be moved to; infinite where there is no bound."""
        unit, _ = unit_and_norm(rows_on(x, device_of(self.autoencoder)), self.autoencoder.d_model)
        axes = self.axes.to(unit.device)
        placed = axes.place(unit)
        return reach(axes.eigenvalues, placed.gradient, placed.value)

    def above(self, value: float) -> Callable[[Tensor], Bool[Tensor, " n"]]:
        """A condition for `quadric.intervene(where=…)`: tokens with z > value."""
        return lambda x: self.value(x) > value

    def below(self, value: float) -> Callable[[Tensor], Bool[Tensor, " n"]]:
        """A condition for `quadric.intervene(where=…)`: tokens with z < value."""
        return lambda x: self.value(x) < value

    @overload
    def project(self, x: Rows, *, to: Target, unreachable: Unreachable = ...) -> Tensor: ...
    @overload
    def project(self, x: None = None, *, to: Target, unreachable: Unreachable = ...) -> Intervention: ...
    def project(
        self, x: Rows | None = None, *, to: Target, unreachable: Unreachable = "raise"
    ) -> Tensor | Intervention:
        """Move to the nearest point at which z has a given value.

        Args:
            x: Activations (n, d); without them, an `Intervention` for `quadric.intervene` is returned.
            to: The value, one value per token, or a function from the present z to the wanted one.
            unreachable: What to do with a value that the latent cannot take: raise, or go to the nearest that it can.

        Returns:
            Activations (n, d) in the precision of x.
        """
        check_choice("unreachable", unreachable, ("raise", "nearest"))
        _check_target(to)

        def move(placed: Placed, axes: Axes) -> Tensor:
            wanted = _wanted(to, placed.value)
            found = nearest_steps(axes.eigenvalues, placed.gradient, wanted - placed.value)
            if unreachable == "raise" and not bool(found.reached.all()):
                self._refuse(placed, axes, wanted, int((~found.reached).nonzero()[0]))
            return found.steps

        shown = f"{to:g}" if isinstance(to, int | float) else "…"
        return self._moved(x, f"project(to={shown})", move)

    @overload
    def slide(self, x: Rows, *, by: float, axes: tuple[int, int] = ...) -> Tensor: ...
    @overload
    def slide(self, x: None = None, *, by: float, axes: tuple[int, int] = ...) -> Intervention: ...
    def slide(self, x: Rows | None = None, *, by: float, axes: tuple[int, int] = (0, 1)) -> Tensor | Intervention:
        """Move along the level set in the plane of two axes, about the centre of the quadric; z stays the same.

        Args:
            x: Activations (n, d); without them, an `Intervention` is returned.
            by: An angle if both eigenvalues have the same sign (2π is a full turn), a rapidity if they differ, and a
                length in units of 1/√|λ| if one axis is that of the linear part.
            axes: Two of the latent's axes, numbered by |λ| descending.

        Returns:
            Activations (n, d) in the precision of x.
        """
        self._check_slide(by, axes)
        return self._moved(
            x,
            f"slide(by={by:g}, axes={axes})",
            lambda placed, own: slide_steps(own.eigenvalues, placed.gradient, by, axes),
        )

    @overload
    def ablate(self, x: Rows, *, mode: Ablation = ..., rest: float | HasCalibration | None = ...) -> Tensor: ...
    @overload
    def ablate(
        self, x: None = None, *, mode: Ablation = ..., rest: float | HasCalibration | None = ...
    ) -> Intervention: ...
    def ablate(
        self, x: Rows | None = None, *, mode: Ablation = "zero", rest: float | HasCalibration | None = None
    ) -> Tensor | Intervention:
        """Remove what a token has in the latent's own space, or bring z to its value at rest.

        Args:
            x: Activations (n, d); without them, an `Intervention` is returned.
            mode: "zero": the coordinates become those of the origin of v. "mean": they become those of the mean token,
                which the dictionary must know. With an affine lens or a centre both are the same, because v is about
                the mean. "rest": z is projected to `rest`.
            rest: For mode="rest": the median of z, as a number or as the evidence of the dictionary.

        Returns:
            Activations (n, d) in the precision of x.
        """
        check_choice("mode", mode, ("zero", "mean", "rest"))
        if (rest is None) is (mode == "rest"):
            raise ValueError(
                f"mode='{mode}' and rest={rest} do not go together; for mode='rest' give the median of z as a number "
                "or as evidence, otherwise leave rest out"
            )
        if mode == "rest":
            assert rest is not None
            return self.project(x, to=self._at_rest(rest))
        if mode == "mean" and self.axes.centring.at_origin:
            raise ValueError(
                "the mean of the tokens is unknown to a dictionary without lens; give it: "
                f"ae.latent({self.index}, centre=mean of the unit tokens), or choose mode='zero'"
            )
        return self._moved(x, f"ablate(mode={mode!r})", lambda placed, _: -placed.coordinates)

    @overload
    def scale(self, x: Rows, *, by: float) -> Tensor: ...
    @overload
    def scale(self, x: None = None, *, by: float) -> Intervention: ...
    def scale(self, x: Rows | None = None, *, by: float) -> Tensor | Intervention:
        """Multiply the coordinates on the latent's axes; 1 changes nothing, and 0 is `ablate`.

        A form without linear part is multiplied by the square of the factor. To multiply z itself, use
        `project(to=lambda z: 2 * z)`.

        Args:
            x: Activations (n, d); without them, an `Intervention` is returned.
            by: The factor.

        Returns:
            Activations (n, d) in the precision of x.
        """
        _check_finite("by", by)
        return self._moved(x, f"scale(by={by:g})", lambda placed, _: (by - 1) * placed.coordinates)

    @torch.no_grad()
    def path(self, x: Rows, end: Rows, shares: Sequence[float]) -> Float[Tensor, "s n d"]:
        """Points on the way from each token towards another, along the level set of the first: z stays the same.

        The coordinates on the latent's axes go to those of `end`, along great circles and boosts (see
        `quadric.interventions.motion`). If z of the end differs, the way leads to the point of the level set nearest to
        it. Everything outside the axes stays as it is in x.

        Args:
            x: Activations (n, d) at the start.
            end: Activations (n, d), of which only the coordinates on the axes matter.
            shares: Where on the way, from 0 to 1: 0 is x.

        Returns:
            One batch of activations for every share.
        """
        x, end = (rows_on(each, device_of(self.autoencoder)) for each in (x, end))
        unit, norms = unit_and_norm(x, self.autoencoder.d_model)
        axes = self.axes.to(unit.device)
        start = axes.place(unit)
        if len(end) != len(x):
            raise ValueError(f"x has {len(x)} tokens and end {len(end)}; give one end for every token")
        across = axes.place(unit_and_norm(end, self.autoencoder.d_model)[0]).coordinates - start.coordinates
        across = across + _back_to_level(axes.eigenvalues, start.gradient, across)
        points = []
        for share in shares:
            steps = path_steps(axes.eigenvalues, start.gradient, across, share)
            if not bool(steps.isfinite().all()):
                raise ValueError(
                    f"no path joins the two ends of token {int((~steps.isfinite()).nonzero()[0, 0])}: they are on "
                    "different sheets of the hyperboloid, or exactly opposite each other; choose another end"
                )
            points.append(x + (norms * (steps @ axes.basis.mT)).to(x))
        return torch.stack(points)

    def _moved(self, x: Rows | None, description: str, move: Callable[[Placed, Axes], Tensor]) -> Tensor | Intervention:
        intervention = Intervention(self.autoencoder, self.index, self.axes, description, move)
        return intervention if x is None else intervention(x)

    def _check_slide(self, by: float, axes: tuple[int, int]) -> None:
        _check_finite("by", by)
        n_axes = len(self.axes.eigenvalues)
        if n_axes < 2:
            raise ValueError(
                f"latent {self.index} has one axis, along which no motion keeps z; use project, or a latent with "
                "more axes"
            )
        if len(axes) != 2 or axes[0] == axes[1] or not all(0 <= axis < n_axes for axis in axes):
            raise ValueError(f"axes={axes} are not two different axes of latent {self.index}, 0 … {n_axes - 1}")

    def _at_rest(self, rest: float | HasCalibration) -> float:
        if isinstance(rest, int | float):
            return rest
        # Evidence shows sign·z; here z has the sign of the weights.
        calibration = rest.calibration
        return float(calibration.signs[self.index]) * float(calibration.rest[self.index])

    def _refuse(self, placed: Placed, axes: Axes, wanted: Tensor, token: int) -> None:
        low, high = (float(bound[token]) for bound in reach(axes.eigenvalues, placed.gradient, placed.value))
        raise ValueError(
            f"latent {self.index} cannot take the value {float(wanted[token]):g}: it reaches "
            f"{_shown(low)} … {_shown(high)}; give a value in this range, or unreachable='nearest' to stop at its end"
        )


def clamp(autoencoder: Dictionary, latent: int, to: float, *, in_norms: bool = False) -> Callable[[Tensor], Tensor]:
    """Hold one latent of a linear dictionary at a value; 0 takes it out: the counterpart of `project` for directions.

    Clamping adds what is missing along the latent's row d of the decoder and nothing else, x' = x + s·(to − z)·d, with
    z the latent's own activation and s the length in x of a step of length 1 in what the encoder reads. What the
    dictionary does not reconstruct stays as it is. Encoding x' again need not give `to`: d moves other latents too, and
    the encoder's row is not d.

    Args:
        autoencoder: A linear dictionary.
        latent: Index of the latent.
        to: The activation, at the scale of `autoencoder.encode(autoencoder.prepare(x))`.
        in_norms: `to` is in units of the token's norm instead, whatever the encoder reads: s·to is then to·‖x‖. A
            dictionary of unit tokens makes no difference between the two.

    Returns:
        A function from activations (n, d) to changed ones, for `quadric.interventions.in_model.edit_activations`.

    Example:
        >>> topk = quadric.TopKAutoencoder(d_model=8, n_latents=16, n_active=4)
        >>> clamp(topk, 3, to=0.5)(torch.randn(5, 8)).shape
        torch.Size([5, 8])
    """
    if not 0 <= latent < autoencoder.n_latents:
        raise IndexError(f"latent {latent} is outside 0 … {autoencoder.n_latents - 1}")
    directions = autoencoder.forms()
    if not isinstance(directions, Directions):
        raise ValueError(f"the latents of a '{autoencoder.kind}' are no directions; use ae.latent({latent}).project")
    direction, read_as, place = exact(directions.writes.detach()[latent]), directions.input, device_of(autoencoder)

    @torch.no_grad()
    def change(x: Tensor) -> Tensor:
        x = rows_on(x, place)
        read = autoencoder.prepare(x)
        norms = exact(x).norm(dim=-1)
        own_scale = token_scale(read_as, read) / autoencoder.lengths_of(read)
        scale = norms * exact(own_scale[:, 0])
        target = to * (norms if in_norms else scale)
        moved: Tensor = (target - scale * exact(autoencoder.encode(read)[:, latent]))[:, None] * direction
        return x + moved.to(x)

    return change


def _check_target(to: Target) -> None:
    if isinstance(to, int | float):
        _check_finite("to", to)
    elif not isinstance(to, Tensor) and not callable(to):
        raise ValueError(f"to={to!r} is no value of z; give a number, one per token, or a function of z")


def _check_finite(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not torch.tensor(value).isfinite():
        raise ValueError(f"{name}={value!r} is not a finite number; give e.g. 0.5")


def _wanted(to: Target, value: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    asked = to(value) if callable(to) else to
    wanted = torch.as_tensor(asked, dtype=value.dtype, device=value.device)
    if wanted.ndim and wanted.shape != value.shape:
        raise ValueError(f"to has shape {tuple(wanted.shape)}; give one number, or one for each of {len(value)} tokens")
    if not bool(wanted.isfinite().all()):
        raise ValueError("to has values that are not finite; check the function or the tensor")
    return wanted.expand_as(value)


def _shown(bound: float) -> str:
    infinite = {float("inf"): "∞", float("-inf"): "−∞"}
    return infinite.get(bound, f"{bound:.6g}")


def _back_to_level(eigenvalues: Tensor, gradient: Tensor, across: Tensor) -> Float[Tensor, "n m"]:
    """The shortest step from the point reached by `across` back to the level set of the start."""
    rise = (gradient * across + eigenvalues * across.square()).sum(-1)
    return nearest_steps(eigenvalues, gradient + 2 * eigenvalues * across, -rise).steps
