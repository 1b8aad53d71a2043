"""The flag groups of commands that train: dictionary and training."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, TypeAlias

import tyro

from quadric.cli.activation_flags import ActivationFlags
from quadric.cli.flags import FlagGroup, flag_group, take
from quadric.run.scales import LARGE, PAPER, SMALL, Grid, Scale, ignored, resized


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Where the sizes come from that are not given."""

    recipe: Literal["auto", "small", "large", "paper"] = "auto"
    """Settings to use where the flags below are left out; auto is small on a CPU and large on an accelerator. Large has
    the paper's sizes; paper is the paper's method as printed."""


RECIPES = {"small": SMALL, "large": LARGE, "paper": PAPER}


def _defaults(name: str) -> str:
    """The default of a size, for the help page: one value, or one for each recipe."""
    if name == "n_hidden":
        return "twice --n-latents"
    values = {recipe: getattr(scale, name) for recipe, scale in RECIPES.items()}
    if name == "top_latents":
        values = {recipe: "all" if value is None else value for recipe, value in values.items()}
    words = {
        recipe: value if isinstance(value, str) else f"{value:g}"
        for recipe, value in values.items()
        if value is not None
    }
    if len(words) == len(values) and len(set(words.values())) == 1:
        return words["small"]
    return ", ".join(f"{value} {recipe}" for recipe, value in words.items())


SIZES = {each.name: _defaults(each.name) for each in fields(Scale) if each.name != "alpha"}
DICTIONARY_SIZES = (
    "lens", "n_latents", "n_hidden", "atoms_per_latent", "mixing_density", "initial_density", "overlap_penalty",
    "top_latents", "mean_penalty", "tied", "n_active",
)  # fmt: skip


def dictionary_flags(prior: str = "composite") -> type[FlagGroup]:
    """The flags of the dictionary; commands differ in the default of --prior."""
    defaults = {"dictionaries": prior, "alphas": _defaults("alpha")}
    grid = take(Grid, renamed={"dictionaries": "prior", "alphas": "alpha"}, defaults=defaults)
    return flag_group("DictionaryFlags", grid, take(Recipe), take(Scale, *DICTIONARY_SIZES, defaults=SIZES))


DictionaryFlags = dictionary_flags()
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
        if chosen == "auto":
            chosen = "small" if self._on_cpu() else "large"
        return resized(RECIPES[chosen], self.dictionary.given(Scale) | self.training.given(Scale))

    def refuse_ignored(self) -> None:
        """Refuse flags that no prior uses. Not for sweeps: the sizes are those of the folder, where cells are added."""
        groups = ((self.dictionary, Grid), (self.dictionary, Scale), (self.training, Scale))
        given = [name for group, config in groups for name in group.given(config)]
        priors = self.grid().dictionaries
        if unused := ignored(given, priors):
            flags = ", ".join("--" + name.replace("alphas", "alpha").replace("_", "-") for name in unused)
            raise ValueError(f"{flags} has no meaning for --prior {' '.join(priors)}; leave it out")

    def _on_cpu(self) -> bool:
        from quadric.data.models import chosen_device

        return chosen_device(self.device).type == "cpu"
