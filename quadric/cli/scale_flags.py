"""The flag groups of commands that train: dictionary and training."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, TypeAlias

import tyro

from quadric.cli.activation_flags import ActivationFlags
from quadric.cli.flags import FlagGroup, Taken, flag_group, take
from quadric.runs.scales import PAPER, SMALL, Grid, Scale, resized


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Where the sizes come from that are not given."""

    recipe: Literal["auto", "paper", "small"] = "auto"
    """Sizes to use where the flags below are left out; auto is small on a CPU and paper on an accelerator."""


def _defaults(name: str) -> str:
    small, paper = getattr(SMALL, name), getattr(PAPER, name)
    if small is None:
        return "twice --n-latents"
    return f"{small:g}" if small == paper else f"{small:g} small, {paper:g} paper"


SIZES = {each.name: _defaults(each.name) for each in fields(Scale)}
DICTIONARY_SIZES = ("n_latents", "n_hidden", "mixing_density", "n_active")
GRID = {"dictionaries": "prior", "alphas": "alpha"}


def dictionary_flags(grid: Taken) -> type[FlagGroup]:
    """The flags of the dictionary; commands differ in the default of --prior."""
    return flag_group("DictionaryFlags", grid, take(Recipe), take(Scale, *DICTIONARY_SIZES, defaults=SIZES))


DictionaryFlags = dictionary_flags(take(Grid, renamed=GRID))
TrainingFlags = flag_group(
    "TrainingFlags", take(Scale, *(name for name in SIZES if name not in DICTIONARY_SIZES), defaults=SIZES)
)

DictionaryGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=DictionaryFlags)]
TrainingGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TrainingFlags)]


@dataclass(frozen=True, kw_only=True)
class ScaleFlags(ActivationFlags):
    """Which activations; and sizes and steps, by recipe or one by one."""

    dictionary: DictionaryGroup = field(default_factory=DictionaryFlags)
    """What is trained; one autoencoder for every combination of layer, prior, alpha and seed."""
    training: TrainingGroup = field(default_factory=TrainingFlags)
    """How long it is trained."""

    def grid(self) -> Grid:
        """The priors, alphas and seeds that were given."""
        return Grid(**self.dictionary.given(Grid))

    def scale(self, recipe: str | None = None) -> Scale:
        """The sizes of a recipe, with those that were given in their place."""
        chosen = Recipe(**{"recipe": recipe or "auto"} | self.dictionary.given(Recipe)).recipe
        base = SMALL if chosen == "small" or (chosen == "auto" and self._on_cpu()) else PAPER
        return resized(base, self.dictionary.given(Scale) | self.training.given(Scale))

    def _on_cpu(self) -> bool:
        from quadric.activations.models import chosen_device

        return chosen_device(self.device).type == "cpu"
