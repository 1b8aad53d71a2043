"""Flags made from config dataclasses: their names, types, defaults and help are written once, in the config.

Every generated flag defaults to None, which means "not given": the config then fills in its own default, and a command
knows exactly which flags were given. A switch (`--symmetric`, `--no-symmetric`) has the config's own default instead,
and counts as given if it differs.
"""

import ast
import inspect
import textwrap
import types
from collections.abc import Container, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import tyro

# Flags that may be left out, without "None" on the help page.
OptionalPath: TypeAlias = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
OptionalText: TypeAlias = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
OptionalInt: TypeAlias = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
OptionalFloat: TypeAlias = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
Paths: TypeAlias = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH ...", help_behavior_hint="")]
Texts: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT ...", help_behavior_hint="")]

UNIONS = (Union, types.UnionType)
NONE = "none"
"""How None is written on the command line, where it is not the default."""


class Command:
    """What every command has."""

    def run(self) -> int:
        """Do it; returns the exit code."""
        raise NotImplementedError

    def options(self, *left_out: str) -> dict[str, Any]:
        """The flags as keyword arguments of the function that the command calls, whose arguments have their names."""
        return {name: value for name, value in vars(self).items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """A command about one dictionary of a run."""

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder, folder made by save_pretrained, or a hub id."""
    name: OptionalText = None
    """Which autoencoder, if the run has several."""
    json: bool = False
    """Print everything as JSON instead of tables."""


@dataclass(frozen=True, kw_only=True)
class ModelCommand(Command):
    """A command that runs the language model of trained dictionaries."""

    model: OptionalText = None
    """Location of the language model, if its recorded name is not enough to find it."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto is an accelerator if there is one, else the CPU."""


class Origin(NamedTuple):
    """The config and the field of it that a flag sets."""

    config: type
    field: str
    may_be_none: bool
    """Whether `none` is a value of the field rather than a word."""


class FlagGroup:
    """Flags that the help page shows together; made by `flag_group`."""

    origins: ClassVar[Mapping[str, Origin]] = {}

    def given(self, config: type) -> dict[str, Any]:
        """The values that were given for a config, or for classes that extend it, by field names."""
        values = {}
        for each in fields(self):  # type: ignore[arg-type]
            origin, value = self.origins[each.name], getattr(self, each.name)
            if issubclass(origin.config, config) and value != each.default:
                values[origin.field] = None if origin.may_be_none and value == NONE else value
        return values


@dataclass(frozen=True)
class Taken:
    """Fields of a config that become flags: those named, in that order; all of them if none is named."""

    config: type
    names: tuple[str, ...] = ()
    _: KW_ONLY
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Flag by field, where they differ."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What the help page says about the default, where that is not the config's own."""
    required: tuple[str, ...] = ()
    metavars: Mapping[str, str] = field(default_factory=dict)
    """How a value looks on the help page, where its type does not say it."""


def flag_fields(config: type) -> tuple[str, ...]:
    """The fields of a config that users set by a flag."""
    return tuple(each.name for each in fields(config) if each.metadata.get("is_flag", True))


def flag_group(class_name: str, *taken: Taken) -> type[FlagGroup]:
    """A dataclass with one field per flag, for tyro to parse."""
    members: list[Any] = []
    origins: dict[str, Origin] = {}
    for part in taken:
        hints, docs = get_type_hints(part.config), attribute_docs(part.config)
        for name in part.names or flag_fields(part.config):
            flag = part.renamed.get(name, name)
            value, may_be_none = _without_none(hints[name])
            may_be_none = may_be_none and name not in part.defaults and bool(default_words(part.config, name))
            origins[flag] = Origin(part.config, name, may_be_none)
            hint = value | Literal["none"] if may_be_none else value
            members.append(_member(part, name, flag, hint, docs.get(name, "")))
    namespace = {"origins": origins, "__doc__": FlagGroup.__doc__}
    return make_dataclass(class_name, members, bases=(FlagGroup,), namespace=namespace, frozen=True, kw_only=True)


def _member(taken: Taken, name: str, flag: str, value: Any, help_text: str) -> Any:
    aliases = taken.aliases.get(name)
    if name in taken.required:
        return flag, Annotated[value, tyro.conf.arg(help=help_text, aliases=aliases)]
    words = taken.defaults.get(name) or default_words(taken.config, name)
    argument = tyro.conf.arg(
        help=help_text,
        aliases=aliases,
        metavar=None if value is bool else taken.metavars.get(name) or metavar_of(value),
        help_behavior_hint=f"(default: {words})" if words else "",
    )
    if value is bool:
        return flag, Annotated[bool, argument], field(default=_default_of(taken.config, name))
    return flag, Annotated[value | None, argument], field(default=None)


def attribute_docs(config: type) -> dict[str, str]:
    """The docstrings below the attributes of a class and of those that it extends, by attribute."""
    docs: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if is_dataclass(base):
            docs |= _docs_in(base)
    return docs


def _docs_in(config: type) -> dict[str, str]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    except OSError:  # a class that was not read from a file
        return {}
    assert isinstance(definition, ast.ClassDef)
    docs = {}
    for attribute, below in pairwise(definition.body):
        match attribute, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as words)):
                docs[name] = " ".join(words.split())
    return docs


def default_words(config: type, name: str) -> str:
    """The default of a field as the help page shows it; nothing where it is None."""
    default = _default_of(config, name)
    if default is MISSING or default is None:
        return ""
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _default_of(config: Any, name: str) -> Any:
    return config.__dataclass_fields__[name].default


def metavar_of(hint: Any) -> str:
    """What a value looks like: INT, {a,b}, INT ..."""
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if get_origin(hint) is tuple:
        return f"{metavar_of(get_args(hint)[0])} ..."
    if get_origin(hint) in UNIONS:
        return "|".join(map(metavar_of, get_args(hint)))
    return "TEXT" if hint is str else str(hint.__name__).upper()


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A type without None, and whether that was part of it."""
    if get_origin(hint) not in UNIONS:
        return hint, False
    values = [each for each in get_args(hint) if each is not type(None)]
    return Union[tuple(values)], len(values) < len(get_args(hint))  # noqa: UP007, made of a list


def shortened(command: Any, shown: Container[str]) -> Any:
    """A command whose help page has no other flags than those; for help alone, since the others are not parsed."""
    docs, hints = attribute_docs(command), get_type_hints(command, include_extras=True)
    members: list[Any] = []
    for each in fields(command):
        hint: Any = hints[each.name]
        if (group := _group_of(hint)) is not None:
            short = shortened(group, shown)
            argument = tyro.conf.arg(help=docs.get(each.name), constructor=short)
            members.append(
                (each.name, Annotated[short, tyro.conf.OmitArgPrefixes, argument], field(default_factory=short))
            )
            continue
        if each.name in docs:
            hint = Annotated[hint, tyro.conf.arg(help=docs[each.name])]
        if each.name not in shown:
            hint = Annotated[hint, tyro.conf.Suppress]
        members.append((each.name, hint, field(default=each.default)))
    namespace = {"__doc__": command.__doc__}
    return make_dataclass(command.__name__, members, bases=(command,), namespace=namespace, frozen=True, kw_only=True)


def _group_of(hint: Any) -> Any:
    """The class of a group of flags, if an annotation is one."""
    bare, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for extra in extras:
        if (made := getattr(extra, "constructor_factory", None)) is not None:
            return made()
    return bare if is_dataclass(bare) else None


def given_flags(command: Any) -> list[str]:
    """The flags of a command, and of the groups in it, whose values differ from their defaults."""
    found: list[str] = []
    for each in fields(command):
        value = getattr(command, each.name)
        if is_dataclass(value):
            found += given_flags(value)
        elif value != each.default:
            found.append(f"--{each.name.rstrip('_').replace('_', '-')}")  # import_ is --import
    return found


def check_resumes_with(command: Any, *allowed: str) -> None:
    """Refuse flags that a resumed run would ignore."""
    if refused := [flag for flag in given_flags(command) if flag not in allowed]:
        raise ValueError(
            f"{', '.join(refused)} cannot be given with --resume: the stored config decides; leave it out, or start a "
            "new one with --out"
        )
