"""Build dataclasses from JSON strictly: unknown keys, missing keys and values of the wrong type are errors."""

import sys
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from quadric._io.files import shown

Record = TypeVar("Record")
WORDS = {int: "a whole number", float: "a finite number", bool: "True or False", str: "text", type(None): "None"}
"""Plain types, as errors name them."""


def record_from_json(record: type[Record], values: object, where: str) -> Record:
    """Build a dataclass from a JSON object with exactly its fields; fields may be dataclasses or tuples of them."""
    if not isinstance(values, dict):
        raise ValueError(f"{where} is {shown(values)}; expected an object")
    check_keys(values, {field.name for field in fields(record)}, where)  # type: ignore[arg-type]
    hints = get_type_hints(record)
    names = [field.name for field in fields(record)]  # type: ignore[arg-type]
    given = {name: _field(values[name], hints[name], f"{where}: {name}") for name in names}
    try:
        return record(**given)
    except ValueError as problem:  # the record's own checks know nothing of the file
        raise ValueError(f"{where}: {problem}") from None


def _field(value: object, hint: Any, where: str) -> object:
    if get_origin(hint) is UnionType and value is not None:
        parts = [each for each in get_args(hint) if is_dataclass(each) or get_origin(each) in (tuple, list, dict)]
        hint = parts[0] if parts else hint
    if is_dataclass(hint) and isinstance(hint, type):
        return record_from_json(hint, value, where)
    if get_origin(hint) in (tuple, list) and isinstance(value, list):
        member = get_args(hint)[0]
        made = [_field(each, member, f"{where}[{index}]") for index, each in enumerate(value)]
        return tuple(made) if get_origin(hint) is tuple else made
    if get_origin(hint) is dict and isinstance(value, dict) and get_args(hint)[1] is not Any:
        kind, member = get_args(hint)
        return {
            _key(name, kind, where): _field(each, member, f"{where}[{shown(name)}]") for name, each in value.items()
        }
    return _checked_value(where, value, _options(hint), "was the file edited?")


def _key(name: str, kind: type, where: str) -> object:
    """A key of the kind that is expected; JSON has numbers as strings."""
    if kind is int and not name.isdecimal():
        raise ValueError(f"{where} has the key {shown(name)}, which is no number; was the file edited?")
    return kind(name)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is UnionType else (hint,)


def _checked_value(name: str, value: object, options: tuple[Any, ...], remedy: str) -> object:
    """The value as one of the types or choices; numbers of numpy become Python's, and whole ones floats if need be."""
    choices = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    kinds = [get_origin(option) or option for option in options]
    if (type(value) not in (int, float) and type(value) in kinds) or (isinstance(value, str) and value in choices):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        number = int(value) if isinstance(value, Integral) else float(value)  # float32 has a smaller maximum
        if isinstance(number, int) and int in options:
            return number
        if float in options and abs(number) <= sys.float_info.max:
            return float(number)
    expected = [WORDS.get(kind) or kind.__name__ for kind in kinds if kind is not Literal] + list(map(repr, choices))
    raise ValueError(f"{name}={shown(value)} is not {' or '.join(expected)}; {remedy}")


def check_keys(values: dict[str, Any], expected: set[str], where: str) -> None:
    """Raise unless an object has exactly the expected keys."""
    if unknown := sorted(values.keys() - expected):
        raise ValueError(f"{where} has unknown keys {shown(unknown)}; expected only {sorted(expected)}")
    if missing := sorted(expected - values.keys()):
        raise ValueError(f"{where} lacks the keys {missing}; the file was edited or is incomplete")


def check_fields(record: Any) -> None:
    """Raise if a field of a dataclass has a value of another type than its annotation, naming value and remedy.

    Numbers of numpy are numbers, and whole numbers may stand for floats: they are converted in place. For the
    `__post_init__` of settings, whose values come from Python, flags and files alike.
    """
    hints = get_type_hints(type(record))
    for each in fields(record):
        value = getattr(record, each.name)
        options = _options(hints[each.name])
        if all(option in WORDS or get_origin(option) is Literal for option in options):  # others check themselves
            value = _checked_value(each.name, value, options, "give one, or leave it out")
            object.__setattr__(record, each.name, value)


def check_positive(name: str, value: object) -> None:
    """Refuse a size that is not a whole number ≥ 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not a whole number ≥ 1; give at least 1")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")
