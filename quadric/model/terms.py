"""The loss as a list of terms: each has a name, a weight with its schedule, and one call that returns its value.

    error          ‖X̂ − X‖²/‖X‖², per token                      equation 7
    density        Hoyer density of z − b, per latent             equation 1
    overlap        Σ_{i≠j} cos²(W_i, W_j) / k                     keeps latents from being copies of each other
    mean           ‖mean of X̂ − mean of X‖²                       of all latents together
    squared_error  ‖x − x̂‖², per token                            what linear dictionaries train

A term asks a `Step` for what it needs, and `Step` computes that as fast as the kind of dictionary allows. On
`PlainStep` the same terms are the paper's pseudocode. A term of your own is a class with a name and a call:

    class Sparse(quadric.Term):
        name = "sparse"

        def __call__(self, step):
            return step.mean(step.z.abs().sum(1))

It becomes a frozen dataclass, `weight` is its first field, and annotated fields of its own are its settings. It is
reported, stored and restored by its name, in one process or several, without an edit here.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from quadric._io.records import check_fields, record_from_json

if TYPE_CHECKING:
    from torch import Tensor

    from quadric.model.step import Step

TERMS: dict[str, type["Term"]] = {}
"""Every term by its name."""
TAKEN = ("step", "autoencoder", "tokens")
"""What a line of metrics says besides the values of terms."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Term:
    """A part of the loss.

    Example:
        >>> class Large(quadric.Term):
        ...     name = "large"
        ...     def __call__(self, step):
        ...         return step.mean(step.z.abs().amax(1))
        >>> Large(0.1)
        Large(weight=0.1)
    """

    name: ClassVar[str] = ""
    """Names its value in reports and files."""
    needs: ClassVar[tuple[str, ...]] = ()
    """What some dictionaries lack, which then refuse the term before they train: `("kernel",)` if it reads
    `step.kernel`, `("forms",)` if it asks for what only quadratic latents have."""

    weight: float = 1.0
    """Factor in the loss; a term of weight 0 is reported and not trained."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)
        if not cls.name:
            return
        if "name" not in vars(cls):
            raise ValueError(
                f"{cls.__name__} has the name of the term that it extends, {cls.name!r}, which files would restore in "
                "its place; give it a name of its own"
            )
        if not cls.name.isidentifier() or cls.name in TAKEN:
            raise ValueError(
                f"name={cls.name!r} of {cls.__name__} cannot name a value in reports; use letters, digits and '_', and "
                f"none of {', '.join(TAKEN)}"
            )
        there = TERMS.get(cls.name)
        if there is not None and there.__module__ == __name__ and cls.__module__ != __name__:
            raise ValueError(f"the name {cls.name!r} is that of one of Quadric's own terms; choose another")
        TERMS[cls.name] = cls

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError(f"{type(self).__name__} has no name; give the class one, e.g. name = 'mine'")
        check_fields(self)
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"the weight {self.weight} of {self.name} is not a finite number ≥ 0; 0 leaves it out")

    def __call__(self, step: "Step") -> "Tensor":
        """The value for one batch: a scalar tensor, the same on every process."""
        raise TypeError(f"{type(self).__name__} has no __call__(self, step); write one that returns a scalar tensor")

    def weight_at(self, index: int, steps: int) -> float:
        """The weight at a step, counted from 0. A function of these numbers alone, so that resuming needs no state."""
        return self.weight

    def as_json(self) -> dict[str, Any]:
        """Name and settings, as they are stored."""
        return {"name": self.name} | {each.name: getattr(self, each.name) for each in fields(self)}


def term_from_json(values: object, where: str) -> Term:
    """The term that `as_json` stored."""
    if not isinstance(values, dict) or not isinstance(values.get("name"), str):
        raise ValueError(f"{where} is not a term of a loss, with a name; restore the file")
    return record_from_json(
        term_class(values["name"], where), {key: value for key, value in values.items() if key != "name"}, where
    )


def term_class(name: str, where: str = "the loss") -> type[Term]:
    """The term of this name; an unknown one is an error that says how to make it known."""
    if name not in TERMS:
        raise ValueError(
            f"{where} has the term {name!r}, which is unknown ({', '.join(TERMS)}); if it is your own, import the "
            "module that defines it first (--import my_terms.py on the command line)"
        )
    return TERMS[name]


def as_loss(terms: object) -> tuple[Term, ...]:
    """A loss as it was given; an error that names what is not a term."""
    if isinstance(terms, Term) or not isinstance(terms, Iterable) or isinstance(terms, str):
        raise ValueError(f"loss={terms!r} is not a list of terms; give e.g. [*kind.default_loss(), MyTerm(0.1)]")
    loss = tuple(terms)
    if not loss:
        raise ValueError(
            "the loss has no terms, so nothing would be trained; give one, or leave it out for the kind's own"
        )
    for each in loss:
        if not isinstance(each, Term):
            raise ValueError(f"{each!r} in the loss is not a quadric.Term; give e.g. Density(0.05)")
    return loss


class Error(Term):
    """Normalized squared error in the product space, averaged over tokens.

    Example:
        >>> from quadric.model import Error
        >>> Error(top=32)
        Error(weight=1.0, top=32)
    """

    name = "error"

    top: int | None = None
    """How many latents reconstruct each token, the strongest by |z_i|·‖W_i‖; all by default, as in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top is not None and self.top < 1:
            raise ValueError(f"top={self.top} is not positive; give at least 1, or leave it out for all latents")

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.top is None else ("forms",)

    def __call__(self, step: "Step") -> "Tensor":
        return step.mean(step.errors(self.top))


class Density(Term):
    """Hoyer density of z − b over the batch, averaged over latents. Its weight is the paper's α.

    Example:
        >>> from quadric.model import Density
        >>> [Density(0.1, warmup=100).weight_at(step, 1000) for step in (0, 50, 500)]
        [0.0, 0.05, 0.1]
    """

    name = "density"

    weight: float = 0.3
    """α."""
    warmup: int | None = None
    """Steps over which the weight rises from 0; by default an eighth of all steps, and at most the paper's 256."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup is not None and self.warmup < 0:
            raise ValueError(f"warmup={self.warmup} is negative; give 0 for none")

    def __call__(self, step: "Step") -> "Tensor":
        norms = step.norms(step.dictionary.density_offset())
        return norms.density(step.n_tokens).mean()

    def weight_at(self, index: int, steps: int) -> float:
        """Linear warm-up, so that reconstruction is learned first."""
        warmup = min(256, steps // 8) if self.warmup is None else self.warmup
        return self.weight * min(1.0, index / warmup) if warmup else self.weight


class Overlap(Term):
    """How much the forms of different latents resemble each other: Σ_{i≠j} cos²(W_i, W_j) / k.

    Example:
        >>> from quadric.model import Overlap
        >>> Overlap()
        Overlap(weight=0.01)
    """

    name = "overlap"
    needs = ("forms",)

    weight: float = 0.01
    """Weight of the resemblance."""

    def __call__(self, step: "Step") -> "Tensor":
        return step.overlap()


class Mean(Term):
    """Error of all latents together on the mean of the batch, ‖mean of X̂ − mean of X‖².

    Latents that are not among a token's strongest may otherwise add up to a constant, which grows with their number.

    Example:
        >>> from quadric.model import Mean
        >>> Mean()
        Mean(weight=1.0)
    """

    name = "mean"
    needs = ("forms",)

    def __call__(self, step: "Step") -> "Tensor":
        mean = step.mean_form()
        return (mean.rebuilt - mean.actual).square().sum()


class SquaredError(Term):
    """‖x − x̂‖² of unit tokens, averaged over tokens: what linear dictionaries train.

    Example:
        >>> [term.name for term in quadric.TopK().default_loss() if term.weight]
        ['squared_error']
    """

    name = "squared_error"

    def __call__(self, step: "Step") -> "Tensor":
        return step.mean(step.residual.square().sum(-1))


def paper_loss(alpha: float = 0.3) -> tuple[Term, ...]:
    """The paper's loss: error of all latents + α · density.

    Args:
        alpha: weight of the density.

    Returns:
        Its two terms.

    Example:
        >>> quadric.paper_loss(alpha=0.1)
        (Error(weight=1.0, top=None), Density(weight=0.1, warmup=None))
    """
    return (Error(), Density(alpha))
