"""How dictionaries are trained, and what one cell of a run is. No torch: flags and help are made from these classes."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from quadric._io.records import check_fields, check_keys, record_from_json
from quadric.model.settings import Settings, settings_class
from quadric.model.terms import Term, as_loss, term_from_json

GradientDtype = Literal["auto", "float32", "bfloat16"]
PAPER_RATE = 0.03
DECAY = 0.5
"""Share of the steps over which learning rates fall unless it is given."""
ROWS = "rows"
"""Hook point of activations that were given as rows."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the dictionaries of a run are trained.

    Example:
        >>> quadric.Training(steps=500).resolved(quadric.Composite(), d_model=576).learning_rate
        0.1
    """

    steps: int = 300
    """Batches to train on."""
    learning_rate: float | None = None
    """Learning rate of Muon; by default that of the kind, several times the paper's 0.03
    (benchmarks/results/learning_rate.md)."""
    learning_rate_decay: float | None = None
    """Share of the steps, the last ones, over which all learning rates fall linearly to 0; half of them by default. 0
    keeps them constant, as in the paper."""
    momentum: float = 0.95
    """Momentum of Muon."""
    gradient_dtype: GradientDtype = "auto"
    """Number type of the products that give the gradients of L, R and dense C: bfloat16 is faster on hardware that has
    it, and rounds gradients, never the error. auto is bfloat16 on GPUs that have it in hardware, and float32 elsewhere.
    Unless auto chose it, Muon runs its rounds on a dense C in bfloat16 too."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; by default a quarter of all steps, and at most 256."""
    keep_checkpoints: int = 2
    """Checkpoints to keep; older ones are deleted."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("steps", "checkpoint_every", "keep_checkpoints"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name}={value} is not positive; give at least 1")
        if (self.learning_rate is not None and not self.learning_rate > 0) or not 0 <= self.momentum < 1:
            raise ValueError(
                f"learning_rate={self.learning_rate} must exceed 0 and momentum={self.momentum} lie in [0, 1); "
                "the paper uses 0.03 and 0.95"
            )
        if self.learning_rate_decay is not None and not 0 <= self.learning_rate_decay <= 1:
            raise ValueError(
                f"learning_rate_decay={self.learning_rate_decay} is outside [0, 1]; it is the share of the steps over "
                "which the learning rate falls to 0, and 0 for a constant one"
            )

    def resolved(self, settings: Settings, d_model: int) -> "Training":
        """The same with the learning rate and its decay filled in, as a dictionary of these settings is trained."""
        rate, decay = self.learning_rate, self.learning_rate_decay
        return replace(
            self,
            learning_rate=settings.learning_rate(d_model) if rate is None else rate,
            learning_rate_decay=DECAY if decay is None else decay,
        )

    @property
    def rate(self) -> float:
        """The learning rate; `resolved` has filled it in."""
        assert self.learning_rate is not None
        return self.learning_rate

    @property
    def decay(self) -> float:
        """The share of falling steps; `resolved` has filled it in."""
        assert self.learning_rate_decay is not None
        return self.learning_rate_decay

    @property
    def steps_between_checkpoints(self) -> int:
        """The number that is used."""
        return max(1, min(256, self.steps // 4)) if self.checkpoint_every is None else self.checkpoint_every

    def check_loss(self, loss: Iterable[Term]) -> None:
        """Raise if a schedule of the loss is longer than the training."""
        for term in loss:
            warmup = getattr(term, "warmup", None)
            if isinstance(warmup, int) and warmup > self.steps:
                raise ValueError(
                    f"{term.name}.warmup={warmup} exceeds steps={self.steps}; shorten the warm-up, or leave it out"
                )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One dictionary of a run: what it is, what it is trained on and with which loss.

    Example:
        >>> from quadric.train import Cell
        >>> cell = Cell(hook_point="resid_pre.15", settings=quadric.Composite(n_latents=64, atoms_per_latent=4.0))
        >>> cell.name
        'resid_pre.15-composite-k64-atoms_per_latent4-seed0'
    """

    hook_point: str = ROWS
    """Canonical name of the hook point whose activations it is trained on."""
    settings: Settings
    loss: tuple[Term, ...] = ()
    """By default that of the kind."""
    seed: int = 0
    """Seed of the initial weights."""
    name: str = ""
    """Name of its folder in the run; by default made of what differs from the kind's defaults."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.settings.is_trainable:
            raise ValueError(f"a {self.settings.kind} is trained elsewhere and only read here; choose another kind")
        loss = as_loss(self.loss) if self.loss != () else self.settings.default_loss()
        object.__setattr__(self, "loss", loss)
        self.settings.check_loss(loss)
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} is not a whole number from 0 to {2**32 - 1}; give one")
        object.__setattr__(self, "name", self.name or self._default_name())
        if not re.fullmatch(r"[\w.+-]+", self.name) or self.name.startswith("."):
            raise ValueError(f"name={self.name!r} is not the name of a folder; use letters, digits, '.', '-' and '_'")

    def _default_name(self) -> str:
        changed = [f"{name}{_word(value)}" for name, value in self.settings.differences().items()]
        default = {term.name: term for term in self.settings.default_loss()}
        for term in self.loss:
            for each in fields(term):
                # A term that the kind's loss lacks is named by its weight, whatever that is.
                usual = None if each.name == "weight" else each.default
                if (value := getattr(term, each.name)) != getattr(default.get(term.name), each.name, usual):
                    changed.append(f"{term.name}{'' if each.name == 'weight' else each.name}{_word(value)}")
        changed += [f"no{name}" for name in default if name not in {term.name for term in self.loss}]
        parts = [self.hook_point, self.settings.kind, f"k{self.settings.n_latents}", *changed, f"seed{self.seed}"]
        return re.sub(r"[^\w.+-]", "_", "-".join(parts))

    def as_json(self) -> dict[str, Any]:
        """Everything, as it is stored."""
        return {
            "name": self.name,
            "hook_point": self.hook_point,
            "kind": self.settings.kind,
            "settings": asdict(self.settings),
            "loss": [term.as_json() for term in self.loss],
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, values: object, where: str) -> "Cell":
        """The cell that `as_json` stored."""
        if not isinstance(values, dict):
            raise ValueError(f"{where} is not an object; restore the file")
        check_keys(values, {"name", "hook_point", "kind", "settings", "loss", "seed"}, where)
        if not isinstance(values["loss"], list):
            raise ValueError(f"{where}: the loss is not a list; restore the file")
        try:
            return cls(
                name=values["name"],
                hook_point=values["hook_point"],
                settings=record_from_json(settings_class(values["kind"], where), values["settings"], where),
                loss=tuple(term_from_json(each, f"{where}: loss") for each in values["loss"]),
                seed=values["seed"],
            )
        except (TypeError, ValueError) as problem:
            if where in str(problem):
                raise
            raise ValueError(f"{where} is damaged ({problem}); restore the file") from None


def _word(value: object) -> str:
    """A value as a part of a name; values that differ have different words."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return f"{value}" if isinstance(value, int) and not isinstance(value, bool) else f"-{value}"
