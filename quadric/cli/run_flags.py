"""The flags of commands that run the language model, and of those that train.

Model, text and token rules come from the configs of activations.
The settings of a dictionary become flags from the classes of all registered kinds, each setting once; those of training
from `Training`. So a kind of the user's own (`--import`) has its flags, too.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import tyro

from quadric.cli.flags import FlagGroup, Taken, flag_fields, flag_group
from quadric.data.settings import ActivationConfig, CorpusConfig, TokenRules
from quadric.model.settings import KINDS, Composite, Settings, field_names, settings_class
from quadric.model.terms import paper_loss
from quadric.run.recipes import RECIPES, Recipe, RecipeName, recipe_of, run_of
from quadric.train.settings import Training

if TYPE_CHECKING:
    from quadric.run.config import RunConfig


DEFAULT_LAYERS = "15"


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Where the computation runs."""

    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, under torchrun each process's own, else the
    CPU."""


def layers_flag(default: str | None) -> Taken:
    """--layers, alias --layer; required where there is no default."""
    return Taken(
        ActivationConfig,
        ("hook_points",),
        renamed={"hook_points": "layers"},
        aliases={"hook_points": ("--layer",)},
        defaults={} if default is None else {"hook_points": default},
        required=("hook_points",) if default is None else (),
    )


def model_flags(layers: Taken) -> type[FlagGroup]:
    """The flags of the model; commands differ in the default of --layers."""
    reading = Taken(ActivationConfig, ("model", "model_revision", "model_dtype", "sequences_per_forward"))
    return flag_group("ModelFlags", layers, reading, Taken(Computation))


ModelFlags = model_flags(layers_flag(DEFAULT_LAYERS))
TextFlags = flag_group(
    "TextFlags",
    Taken(
        CorpusConfig,
        (
            *("source", "subset", "revision", "hub_split", "text_field", "document_separator", "split"),
            *("held_out_fraction", "packing", "block_length", "seed", "shuffle_buffer"),
        ),
        renamed={"source": "corpus", "revision": "corpus_revision"},
    ),
)
RuleFlags = flag_group("RuleFlags", Taken(TokenRules))

ModelGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=ModelFlags)]
TextGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TextFlags)]
RuleGroup: TypeAlias = Annotated[
    FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=RuleFlags, name="token rules")
]


@dataclass(frozen=True, kw_only=True)
class ActivationFlags:
    """Which model reads which text, and which tokens are kept."""

    model: ModelGroup = field(default_factory=ModelFlags)
    """The language model, and where its activations are read."""
    text: TextGroup = field(default_factory=TextFlags)
    """The text that it reads."""
    rules: RuleGroup = field(default_factory=RuleFlags)
    """Which tokens are left out."""

    @property
    def device(self) -> str:
        return Computation(**self.model.given(Computation)).device

    @property
    def model_name(self) -> str:
        return str(self.model.given(ActivationConfig).get("model", ActivationConfig.model))

    def activation_config(self, **defaults: Any) -> ActivationConfig:
        """What the flags ask for; `defaults` stand in for fields whose flags were not given."""
        return ActivationConfig(
            **{"hook_points": DEFAULT_LAYERS} | defaults | self.model.given(ActivationConfig),
            corpus=CorpusConfig(**self.text.given(CorpusConfig)),
            rules=TokenRules(**self.rules.given(TokenRules)),
        )


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What is combined into cells, and where what is not given comes from."""

    kinds: tuple[str, ...] = ("composite",)
    """Kinds of dictionary: priors on the mixing of atoms into latents, the linear baselines topk and batch_topk, or
    kinds of your own (--import)."""
    alphas: tuple[float, ...] = ()
    """Weights of the density in the loss, one cell each; kinds that do not train it are trained once."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the initial weights."""
    recipe: RecipeName = "auto"
    """Settings to use where flags are left out; auto is small on a CPU and large on an accelerator. Large has the
    paper's sizes; paper is the paper's method as printed."""
    loss: tuple[str, ...] = ()
    """Changes of the loss: density=0.1 is the weight of a term, error.top=64 a setting of one, error.top=none the
    setting left out. A term that the loss lacks is added."""


def _default_words(name: str) -> str:
    """The default of a setting for the help page: one value, or one for each recipe."""
    values = {recipe: _default(name, asked) for recipe, asked in RECIPES.items()}
    words = {recipe: f"{value:g}" if isinstance(value, float) else str(value) for recipe, value in values.items()}
    if len(set(words.values())) == 1:
        return "" if None in values.values() else next(iter(words.values()))
    return ", ".join(f"{words[recipe]} {recipe}" for recipe, value in values.items() if value is not None)


def _default(name: str, recipe: Recipe) -> Any:
    """What a recipe has for a setting; the kind's own default if nothing."""
    for config in (recipe, recipe.training):
        if name in {each.name for each in fields(config)}:
            return getattr(config, name)
    own = next(each for kind in KINDS.values() for each in fields(kind) if each.name == name)
    return recipe.settings.get(name, own.default)


def _with_defaults(config: type, *names: str) -> Taken:
    return Taken(config, names, defaults={name: words for name in names if (words := _default_words(name))})


def _kinds_to_train() -> tuple[type[Settings], ...]:
    """Composite first: its settings are those that most people use."""
    return (Composite, *(kind for kind in KINDS.values() if kind.is_trainable and kind is not Composite))


@cache
def _dictionary_flags(prior: str, kinds: tuple[type[Settings], ...]) -> type[FlagGroup]:
    density = [next(term.weight for term in loss if term.name == "density") for loss in (
        Composite().default_loss(), paper_loss())]  # fmt: skip
    combined = Taken(
        Combined,
        renamed={"kinds": "prior", "alphas": "alpha"},
        defaults={"kinds": prior, "alphas": "{:g}, or {:g} with --lens paper".format(*density)},
        metavars={"kinds": f"{{{','.join(kind.kind for kind in kinds)}}} ...", "loss": "NAME=VALUE ..."},
    )
    taken, names = [combined], set[str]()
    for kind in kinds:
        if new := [name for name in flag_fields(kind) if name not in names]:
            taken.append(_with_defaults(kind, *new))
            names.update(new)
    return flag_group("DictionaryFlags", *taken)


def dictionary_flags(prior: str = "composite") -> type[FlagGroup]:
    """The flags of the dictionary, of kinds registered by now; `prior` is the help's default of --prior."""
    return _dictionary_flags(prior, _kinds_to_train())


TrainingFlags = flag_group(
    "TrainingFlags",
    _with_defaults(Training, *flag_fields(Training)),
    _with_defaults(Recipe, "sequences_per_step", "epochs"),
)

DictionaryGroup: TypeAlias = Annotated[
    FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor_factory=dictionary_flags)
]
TrainingGroup: TypeAlias = Annotated[FlagGroup, tyro.conf.OmitArgPrefixes, tyro.conf.arg(constructor=TrainingFlags)]
Imports: TypeAlias = Annotated[
    tuple[Path, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="import", metavar="FILE.py", help_behavior_hint=""),
]


@dataclass(frozen=True, kw_only=True)
class RunFlags(ActivationFlags):
    """Which activations, which dictionaries on them, and how they are trained."""

    shown_first: ClassVar[tuple[str, ...]] = (
        "model", "layers", "device", "corpus", "prior", "alpha", "seeds", "recipe", "n_latents", "steps", "out",
        "resume", "cache",
    )  # fmt: skip
    """The flags that --help shows; --help-all shows the others, too."""

    dictionary: DictionaryGroup = field(default_factory=lambda: dictionary_flags()())
    """What is trained; one dictionary for every combination of layer, prior, alpha and seed."""
    training: TrainingGroup = field(default_factory=TrainingFlags)
    """How long it is trained, and how."""
    import_: Imports = ()
    """A Python file that registers kinds or terms of your own; may be given several times."""

    @property
    def imports(self) -> str:
        """--import as it was given, for the command that continues this one."""
        return "".join(f" --import {shlex.quote(str(path))}" for path in self.import_)

    def combined(self) -> Combined:
        """The kinds, alphas and seeds that were given, or the defaults."""
        return Combined(**self.dictionary.given(Combined))

    def recipe(self, default: RecipeName = "auto") -> Recipe:
        """The recipe that was chosen, with the training that was given in its place."""
        name = self.dictionary.given(Combined).get("recipe", default)
        chosen, given = recipe_of(name, self.device), self.training.given(Recipe)
        return replace(chosen, training=replace(chosen.training, **self.training.given(Training)), **given)

    def changes(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Arguments of `recipes.cells`: what differs from the recipe; flags that no kind uses are refused."""
        combined, settings = self.combined(), self.dictionary.given(Settings)
        self._refuse_unused(tuple(kinds), settings)
        changes = loss_changes(combined.loss)
        if combined.alphas and "density" in changes:
            raise ValueError("--alpha and --loss density=… both give the weight of the density; leave one out")
        return {"settings": settings, "loss": changes, "alphas": combined.alphas, "seeds": combined.seeds}

    def _refuse_unused(self, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        kinds = [settings_class(name) for name in names]
        known = {name for kind in kinds for name in field_names(kind)}
        unused = [f"--{name.replace('_', '-')}" for name in settings if name not in known]
        terms = [term for kind in kinds for term in kind().default_loss()]
        if self.combined().alphas and not any(term.name == "density" and term.weight for term in terms):
            unused.insert(0, "--alpha")
        if unused:
            raise ValueError(f"{', '.join(unused)} has no meaning for --prior {' '.join(names)}; leave it out")

    def run_config(self, cache: str | None = None) -> "RunConfig":
        """What the flags ask for."""
        kinds = self.combined().kinds
        return run_of(self.recipe(), self.activation_config(), kinds, cache=cache, **self.changes(kinds))


def loss_changes(words: Iterable[str]) -> dict[str, Any]:
    """Changes of a loss, from words such as density=0.1 and error.top=none."""
    changes = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--loss {word} is not NAME=VALUE; give e.g. density=0.1 or error.top=64")
        changes[name] = _value(value)
    return changes


def _value(word: str) -> Any:
    """A number, true, false, none, or the word itself."""
    named = {"none": None, "true": True, "false": False}
    if word.lower() in named:
        return named[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def import_files(arguments: Sequence[str]) -> list[str]:
    """Import every file that --import names, so that its kinds and terms have flags; returns the other arguments."""
    parser = argparse.ArgumentParser(prog="quadric", add_help=False, allow_abbrev=False)
    parser.add_argument("--import", dest="files", metavar="FILE.py", action="append", type=Path, default=[])
    known, others = parser.parse_known_args(arguments)
    for path in known.files:
        _import_file(path)
    return others


def _import_file(path: Path) -> None:
    """Run a file as a module that is known by its whole path, so that none of the same name is in its way."""
    if not path.is_file():
        raise FileNotFoundError(f"--import {path}: there is no such file; give the one that registers your kinds")
    name = str(path.resolve())
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"--import {path} is not a Python file; give one that ends in .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        if os.environ.get("QUADRIC_DEBUG"):
            raise
        raise ValueError(
            f"--import {path} failed with {type(problem).__name__}: {problem}; QUADRIC_DEBUG=1 shows where"
        ) from None
