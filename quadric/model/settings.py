"""What each kind of dictionary can be told: one frozen dataclass per kind, with the settings that this kind has.

A setting is written once, here. Flags, the stored JSON, the axes of a sweep and the names of cells are made from these
classes. This file imports no torch, so that flags and help are there at once; `build` imports its module when called.

    atomic      each latent is one atom                         C = I
    composite   each latent mixes a few of all atoms            only the globally largest |C|
    quadratic   each latent mixes all atoms                     C dense
    subspaces   each latent is a small subspace                 P_iᵀP_i, decoded linearly
    topk, batch_topk, relu, jumprelu                            linear dictionaries
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from quadric._io.records import check_fields
from quadric.model.terms import Density, Error, Mean, Overlap, SquaredError, Term, paper_loss

if TYPE_CHECKING:
    import torch

    from quadric.model.dictionary import Dictionary
    from quadric.model.lens import Lens
    from quadric.model.mixing import Mixing

LensKind = Literal["paper", "affine"]
Initialization = Literal["orthogonal", "xavier"]
Input = Literal["unit", "own", "constant_norm", "layer_norm"]

LARGEST_KERNEL = 16_384
"""Most atoms whose Gram matrix is held in memory: 1 GiB in float32."""
LARGEST_DENSE_START = 2**25
"""Most entries of C that training starts with by default: 128 MiB in float32, and several times that in training."""
SPARSE_START = 64.0
"""Atoms per latent that a larger C starts with."""
STRONGEST = 32
"""Most latents that the default loss reconstructs each token from; a tenth of small dictionaries."""
MOST_WITHOUT_MEAN = 600
"""Latents up to which those that are left out of the error do not add up to much: without the penalty on the mean, the
error of the constant block is 0.03 with 576 latents and 1.1 with 4,608 (docs/results/large, large-128)."""
LONGEST_USUAL_STEP = 0.4
"""Part of an atom's initial length that a step may move it by default, where there are many atoms: errors rose at 0.6
and more (`quadric.train.loop.LONGEST_STEP`)."""
PAPER_ATOMS = 16.0
"""Atoms per latent in the paper, 16.384 of 16,384."""

KINDS: dict[str, type["Settings"]] = {}
"""Every registered kind by its name."""
Kind = TypeVar("Kind", bound=type["Settings"])
Of = TypeVar("Of", bound="Settings")


def register(name: str) -> Callable[[Kind], Kind]:
    """Make a kind of dictionary known by name: to `--prior`, to `fit(prior=…)` and to files.

    Args:
        name: of the kind. Ours cannot be replaced.

    Returns:
        A decorator for a frozen dataclass that extends `Settings`.

    Example:
        >>> from dataclasses import dataclass
        >>> @quadric.register("mine")
        ... @dataclass(frozen=True, kw_only=True)
        ... class Mine(quadric.TopK):
        ...     pass
        >>> Mine(n_latents=64).kind
        'mine'
    """

    def add(settings: Kind) -> Kind:
        there = KINDS.get(name)
        if there is not None and there.__module__ == __name__ and settings.__module__ != __name__:
            raise ValueError(f"the kind {name!r} is Quadric's own; choose another name")
        if vars(settings).get("kind", name) != name:
            raise ValueError(f"{settings.__name__} is registered as {settings.kind!r}; extend it to register {name!r}")
        settings.kind = name
        KINDS[name] = settings
        return settings

    return add


def settings_class(name: object, where: str | None = None) -> type["Settings"]:
    """The kind of this name, found `where`; an unknown one is an error that says how to make it known."""
    if not isinstance(name, str) or name not in KINDS:
        found = repr(name) if where is None else f"{where}: {name!r}"
        raise ValueError(
            f"{found} is not a known kind of dictionary ({', '.join(KINDS)}); if it is your own, import the module "
            "that registers it first (--import my_kind.py on the command line)"
        )
    return KINDS[name]


@dataclass(frozen=True, kw_only=True)
class Settings(ABC):
    """What a kind of dictionary can be told; `build` makes a dictionary of it.

    A kind of your own extends this class, or one of ours, as a frozen dataclass (docs/how-to/extending.md).

    Example:
        >>> settings = quadric.TopK(n_latents=64, n_active=8)
        >>> settings.kind, settings.differences()
        ('topk', {'n_active': 8})
        >>> settings.build(d_model=16).n_latents
        64
    """

    kind: ClassVar[str]
    """Name under which the kind is registered."""
    is_trainable: ClassVar[bool] = True
    """Whether `fit` trains it; False for kinds that are only read from other libraries."""
    trains_in_one_process: ClassVar[bool] = False
    """Whether its loss is that of one process's tokens alone."""
    offers: ClassVar[tuple[str, ...]] = ()
    """What its training step can give to terms that need it: `forms` of quadratic latents, and their `kernel`."""

    n_latents: int = 512
    """Size of the dictionary."""

    @property
    def has_kernel(self) -> bool:
        """Whether the inner products of all forms are held in memory."""
        return False

    @property
    def lens_name(self) -> str | None:
        """The kind of the lens; None for kinds that have none."""
        return getattr(self, "lens", None)

    def __post_init__(self) -> None:
        if KINDS.get(getattr(self, "kind", "")) is not type(self):
            raise ValueError(
                f"{type(self).__name__} is not a registered kind, and files could not restore it; put "
                "@quadric.register('my_kind') above the class, or take a kind of ours"
            )
        check_fields(self)
        if self.n_latents < 1:
            raise ValueError(f"n_latents={self.n_latents} is not positive; give at least 1")

    def resolved(self, d_model: int) -> "Settings":
        """The same with every None filled in, as a dictionary of this width stores it."""
        return self

    def default_loss(self) -> tuple[Term, ...]:
        """What training minimizes unless it is told otherwise."""
        return (SquaredError(), Error(weight=0.0))

    def learning_rate(self, d_model: int) -> float:
        """Of Muon, unless `Training` gives one."""
        return 0.06

    def check_loss(self, loss: tuple[Term, ...]) -> None:
        """Raise for a term that a dictionary with these settings cannot compute, before anything is trained."""
        names = [term.name for term in loss]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the loss has {', '.join(twice)} twice; add up their weights")
        for term in loss:
            lacking = [need for need in term.needs if need not in self.offers]
            if lacking:
                raise ValueError(
                    f"{term} needs the {lacking[0]} of quadratic latents; a {self.kind} has none: leave it out"
                )
        if not any(term.weight for term in loss):
            raise ValueError("the loss has no term with a weight above 0, so nothing would be trained; give one")

    @abstractmethod
    def build(self, d_model: int, *, lens: "Lens | None" = None, seed: int = 0) -> "Dictionary":
        """An untrained dictionary; an affine lens is estimated when training starts, unless it is given."""

    def restore(self, d_model: int, tensors: "dict[str, torch.Tensor]", *, seed: int = 0) -> "Dictionary":
        """A dictionary of these settings with the tensors that it saved."""
        from quadric.model.storage import check_shapes

        made = self.build(d_model, seed=seed)
        check_shapes(tensors, {name: tuple(each.shape) for name, each in made.tensors().items()})
        dtype = next((each.dtype for each in tensors.values() if each.is_floating_point()), None)
        made.to(dtype).load_state_dict(tensors)  # in this order: copying rounds to the precision that is there
        return made

    def differences(self) -> dict[str, Any]:
        """Fields that differ from the defaults of the kind, apart from the number of latents."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name != "n_latents" and getattr(self, each.name) != each.default
        }


def field_names(settings: type[Settings]) -> tuple[str, ...]:
    """The settings of a kind by name."""
    return tuple(each.name for each in fields(settings))


def _is_of_strongest(term: Term) -> bool:
    return isinstance(term, Error) and term.top is not None


def check_names(kind: type[Settings], given: Mapping[str, Any]) -> None:
    """Refuse a field that the kind does not have."""
    known = field_names(kind)
    if unknown := sorted(given.keys() - set(known)):
        raise ValueError(
            f"{', '.join(f'{name}={given[name]!r}' for name in unknown)} has no meaning for kind={kind.kind!r}, "
            f"which has {', '.join(known)}; leave it out"
        )


def settings_or_keywords(
    family: type[Of], settings: Of | None, keywords: Mapping[str, Any], kind: type[Of] | None = None
) -> Of:
    """The settings of a dictionary that is given either settings, or some of their fields as keywords.

    Args:
        family: what the settings must be.
        settings: as they were given.
        keywords: as they were given; None where one was left out.
        kind: of the settings that keywords make.
    """
    given = {name: value for name, value in keywords.items() if value is not None}
    if settings is None:
        if "n_latents" not in given:
            raise ValueError("n_latents is missing; give the size of the dictionary")
        assert kind is not None
        check_names(kind, given)
        return kind(**given)
    if not isinstance(settings, family):
        raise ValueError(f"this dictionary has no use for {settings!r}; make one with settings.build(d_model)")
    if given:
        named = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"{named} is given beside {settings!r}, which has a value of its own; leave one out")
    return settings


def override(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some fields changed; a field that the kind does not have is an error."""
    check_names(type(settings), changes)
    return replace(settings, **changes)


@dataclass(frozen=True, kw_only=True)
class Bilinear(Settings):
    """What the three priors share; not a kind itself."""

    offers = ("forms", "kernel")
    prior: ClassVar[str] = "composite"
    """Which constraint C has."""

    lens: LensKind = "affine"
    """Coordinates of the forms: the token itself (paper), or the centred token beside a constant (affine)."""
    symmetric: bool = True
    """Measure the error with the symmetric kernel rather than the printed one."""
    same_factors: bool = False
    """L = R: every atom is a square (w·x)², with half the parameters and a cheaper step."""
    init: Initialization = "orthogonal"
    """Initialization of L, R and C."""

    @property
    def atoms(self) -> int:
        """h, the number of atoms."""
        return self.n_latents

    @property
    def starts_sparse(self) -> bool:
        """Whether C is stored by its entries, or is the identity, from the first step."""
        return True

    @property
    def has_kernel(self) -> bool:
        """Whether G and K are held in memory."""
        return self.atoms <= LARGEST_KERNEL

    def learning_rate(self, d_model: int) -> float:
        """0.1, or what moves an atom of a C that starts sparse by a third of its initial length."""
        rate = 0.1
        if not self.starts_sparse or self.atoms <= d_model:
            return rate
        return min(rate, LONGEST_USUAL_STEP / sqrt(self.atoms / d_model))

    def default_loss(self) -> tuple[Term, ...]:
        """The paper's loss for the paper's lens; else that of the strongest latents, with a penalty on copies and, if
        many latents are left out, on the mean (docs/centre.md)."""
        if self.lens == "paper":
            return paper_loss()
        if not (self.has_kernel or self.starts_sparse):
            return (Error(), Density(0.05))
        top = max(1, min(STRONGEST, self.n_latents // 10))
        # Mean comes first: what it asks for is then differentiated last, and sums of gradients keep their order.
        mean = (Mean(),) if self.n_latents > MOST_WITHOUT_MEAN else ()
        return (*mean, Error(top=top), Density(0.05), Overlap(0.01))

    def check_loss(self, loss: tuple[Term, ...]) -> None:
        super().check_loss(loss)
        if self.has_kernel:
            return
        for term in loss:
            if "kernel" in term.needs:
                raise ValueError(
                    f"{term.name} needs the kernel, {4 * self.n_latents**2 / 2**30:.0f} GiB for n_latents="
                    f"{self.n_latents}, which is never formed for more than {LARGEST_KERNEL:,} atoms; leave it out, or "
                    "use step.overlap() and step.errors(), which need none"
                )
            if not self.starts_sparse and (isinstance(term, Overlap) or _is_of_strongest(term)):
                raise ValueError(
                    f"{term} needs the entries of C, and a dense C of {self.atoms} atoms is multiplied in blocks; "
                    "leave it out, or let a composite C start with fewer entries (initial_density below 0.01)"
                )

    def initial_mixing(self, generator: "torch.Generator") -> "Mixing":
        """C of an untrained dictionary."""
        raise TypeError(f"{type(self).__name__} has no prior; extend Atomic, Composite or Quadratic")

    def stored_mixing(self, tensors: "dict[str, torch.Tensor]") -> "Mixing":
        """C from the tensors that a dictionary saved."""
        raise TypeError(f"{type(self).__name__} has no prior; extend Atomic, Composite or Quadratic")

    def build(self, d_model: int, *, lens: "Lens | None" = None, seed: int = 0) -> "Dictionary":
        from quadric.model.bilinear import BilinearAutoencoder

        return BilinearAutoencoder(self, d_model=d_model, lens=lens, seed=seed)

    def restore(self, d_model: int, tensors: "dict[str, torch.Tensor]", *, seed: int = 0) -> "Dictionary":
        from quadric.model.bilinear import BilinearAutoencoder

        return BilinearAutoencoder.from_tensors(self, d_model, tensors, seed=seed)


@register("atomic")
@dataclass(frozen=True, kw_only=True)
class Atomic(Bilinear):
    """Each latent is one atom, C = I: slabs.

    Example:
        >>> quadric.Atomic(n_latents=64).build(8).n_latents
        64
    """

    prior = "atomic"

    def initial_mixing(self, generator: "torch.Generator") -> "Mixing":
        from quadric.model.mixing import Identity

        return Identity(self.n_latents)

    def stored_mixing(self, tensors: "dict[str, torch.Tensor]") -> "Mixing":
        from quadric.model.mixing import Identity

        return Identity(self.n_latents)


@dataclass(frozen=True, kw_only=True)
class Mixed(Bilinear):
    """What priors with a C share; not a kind itself."""

    n_hidden: int | None = None
    """Number of atoms; two per latent by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_hidden is not None and self.n_hidden < 1:
            raise ValueError(f"n_hidden={self.n_hidden} is not positive; give at least 1")

    @property
    def atoms(self) -> int:
        return 2 * self.n_latents if self.n_hidden is None else self.n_hidden

    def resolved(self, d_model: int) -> "Mixed":
        return replace(self, n_hidden=self.atoms)


@register("composite")
@dataclass(frozen=True, kw_only=True)
class Composite(Mixed):
    """Each latent mixes a few atoms, the globally largest |C|: ellipsoids, hyperboloids, paraboloids.

    C starts with `initial_density` of its entries and loses the smallest ones over the first half of training.

    Example:
        >>> settings = quadric.Composite(n_latents=64, atoms_per_latent=4)
        >>> settings.resolved(d_model=8).n_hidden
        128
    """

    prior = "composite"

    atoms_per_latent: float | None = None
    """Average number of atoms per latent at the end of training; the paper's 16 by default, or all if there are
    fewer."""
    initial_density: float | None = None
    """Share of C that training starts with; by default all of it up to 2²⁵ entries, and 64 atoms per latent beyond."""

    def __post_init__(self) -> None:
        super().__post_init__()
        atoms, kept = self.atoms, self.atoms_per_latent
        if kept is not None and not 0 < kept <= atoms:
            raise ValueError(f"atoms_per_latent={kept:g} is outside (0, {atoms}]; give at most the number of atoms")
        start = self.initial_density
        if start is not None and not 0 < start <= 1:
            raise ValueError(f"initial_density={start!r} is outside (0, 1]; the paper starts with all entries, 1")
        if start is not None and start < self.mixing_density * (1 - 1e-9):
            raise ValueError(
                f"initial_density={start:g} is below the {self.mixing_density:g} that C keeps at the end; give at "
                f"least {self.mixing_density:g}, or fewer atoms_per_latent"
            )

    @property
    def mixing_density(self) -> float:
        """Share of C at the end of training."""
        kept = min(PAPER_ATOMS, self.atoms) if self.atoms_per_latent is None else self.atoms_per_latent
        return min(1.0, kept / self.atoms)

    @property
    def density_at_start(self) -> float:
        """Share of C at the start of training."""
        if self.initial_density is not None:
            return self.initial_density
        if self.n_latents * self.atoms <= LARGEST_DENSE_START:
            return 1.0
        return min(1.0, max(SPARSE_START / self.atoms, self.mixing_density))

    @property
    def starts_sparse(self) -> bool:
        return self.density_at_start < 0.01  # quadric.model.mixing.SPARSE_BELOW, which this file must not import

    def resolved(self, d_model: int) -> "Composite":
        kept = min(PAPER_ATOMS, float(self.atoms)) if self.atoms_per_latent is None else self.atoms_per_latent
        return replace(self, n_hidden=self.atoms, atoms_per_latent=kept, initial_density=self.density_at_start)

    def initial_mixing(self, generator: "torch.Generator") -> "Mixing":
        from quadric.model.mixing import initial_composite

        return initial_composite((self.n_latents, self.atoms), self.density_at_start, self.init, generator)

    def stored_mixing(self, tensors: "dict[str, torch.Tensor]") -> "Mixing":
        from quadric.model.mixing import stored_composite

        return stored_composite(tensors, (self.n_latents, self.atoms))


@register("quadratic")
@dataclass(frozen=True, kw_only=True)
class Quadratic(Mixed):
    """Each latent mixes all atoms, C dense: any quadric.

    Example:
        >>> quadric.Quadratic(n_latents=64, n_hidden=128).build(8).n_hidden
        128
    """

    prior = "quadratic"

    @property
    def starts_sparse(self) -> bool:
        return False

    def initial_mixing(self, generator: "torch.Generator") -> "Mixing":
        from quadric.model.mixing import initial_dense

        return initial_dense((self.n_latents, self.atoms), self.init, generator)

    def stored_mixing(self, tensors: "dict[str, torch.Tensor]") -> "Mixing":
        from quadric.model.mixing import Dense

        return Dense(tensors["mixing"])


@dataclass(frozen=True, kw_only=True)
class Linear(Settings):
    """What linear dictionaries share; not a kind itself."""

    input: Input = field(default="unit", metadata={"is_flag": False})
    """What the encoder reads of a token: unit, own, constant_norm or layer_norm; all but unit are for dictionaries that
    were trained elsewhere."""
    subtract_decoder_bias: bool = field(default=True, metadata={"is_flag": False})
    """Whether the decoder's bias is subtracted before the encoder; False is for dictionaries trained elsewhere."""

    def default_loss(self) -> tuple[Term, ...]:
        """Squared error; the product-space error and the density are reported and not trained."""
        return (SquaredError(), Error(weight=0.0), Density(0.0))

    def build(self, d_model: int, *, lens: "Lens | None" = None, seed: int = 0) -> "Dictionary":
        from quadric.model.linear import class_of

        return class_of(self)(self, d_model=d_model, seed=seed)


@dataclass(frozen=True, kw_only=True)
class WithActive(Linear):
    """What dictionaries with a set number of active latents share; not a kind itself."""

    n_active: int = 32
    """Latents that fire per token; the paper's baseline has 32."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_active < 1:
            raise ValueError(f"n_active={self.n_active} is not positive; give at least 1")
        if self.n_active > self.n_latents:
            raise ValueError(f"n_active={self.n_active} exceeds n_latents={self.n_latents}; lower n_active")


@register("topk")
@dataclass(frozen=True, kw_only=True)
class TopK(WithActive):
    """A linear dictionary that keeps the `n_active` strongest latents of every token.

    Example:
        >>> quadric.TopK(n_latents=64, n_active=8).build(16)
        TopKAutoencoder(d_model=16, n_latents=64, n_active=8)
    """


@register("batch_topk")
@dataclass(frozen=True, kw_only=True)
class BatchTopK(WithActive):
    """A linear dictionary that keeps the n · `n_active` strongest activations of a training batch.

    Example:
        >>> quadric.BatchTopK(n_latents=64, n_active=8).build(16)
        BatchTopKAutoencoder(d_model=16, n_latents=64, n_active=8)
    """

    trains_in_one_process = True


@register("subspaces")
@dataclass(frozen=True, kw_only=True)
class Subspaces(Settings):
    """Each latent is a subspace of a few dimensions; the `n_active` with most energy in a token rebuild it linearly.

    Example:
        >>> quadric.Subspaces(n_latents=64, rank=2, n_active=4).build(16)
        SubspaceAutoencoder(kind='subspaces', d_model=16, n_latents=64, rank=2, n_active=4)
    """

    rank: int = 4
    """Dimensions of a subspace."""
    n_active: int = 8
    """Subspaces that fire per token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rank", "n_active"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        if self.n_active > self.n_latents:
            raise ValueError(f"n_active={self.n_active} exceeds n_latents={self.n_latents}; lower n_active")

    @property
    def lens_name(self) -> str:
        return "affine"

    def learning_rate(self, d_model: int) -> float:
        """0.2, and less the more rows there are per dimension: a step moves all of them at once."""
        return 0.2 / sqrt(max(1.0, self.n_latents * self.rank / d_model))

    def default_loss(self) -> tuple[Term, ...]:
        """Squared error; the product-space error and the density are reported and not trained."""
        return (SquaredError(), Error(weight=0.0), Density(0.0))

    def build(self, d_model: int, *, lens: "Lens | None" = None, seed: int = 0) -> "Dictionary":
        from quadric.model.subspaces import SubspaceAutoencoder

        return SubspaceAutoencoder(self, d_model, lens=lens, seed=seed)

    def restore(self, d_model: int, tensors: "dict[str, torch.Tensor]", *, seed: int = 0) -> "Dictionary":
        from quadric.model.subspaces import SubspaceAutoencoder

        return SubspaceAutoencoder.from_tensors(self, d_model, tensors, seed=seed)


@register("relu")
@dataclass(frozen=True, kw_only=True)
class ReLU(Linear):
    """A linear dictionary that keeps every positive latent; trained elsewhere.

    Example:
        >>> from quadric.model import ReLU
        >>> ReLU(n_latents=64).is_trainable
        False
    """

    is_trainable = False


@register("jumprelu")
@dataclass(frozen=True, kw_only=True)
class JumpReLU(Linear):
    """A linear dictionary that keeps every latent above its own threshold; trained elsewhere.

    Example:
        >>> from quadric.model import JumpReLU
        >>> JumpReLU(n_latents=64).is_trainable
        False
    """

    is_trainable = False
