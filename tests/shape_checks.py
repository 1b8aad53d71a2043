"""The checks of shapes and types that `--jaxtyping-packages` asks for, made once per call.

The import hook of jaxtyping wraps every function of the package, also those that take two numbers. For better messages,
its wrapper binds the arguments and checks them twice, before the call and again with the result: thirty explanations of
a tiny model take 6.2 million Python calls. Here beartype checks arguments and result once, inside a record of
dimensions of the call's own where an annotation names some: 2.5 million, and the same mistakes are errors. Half of the
suite takes 189 s of CPU time with it and 247 s without it.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, get_args

import jaxtyping
from beartype import BeartypeConf
from jaxtyping import _decorator
from jaxtyping._import_hook import Typechecker
from jaxtyping._storage import pop_shape_memo, push_shape_memo

_jaxtyped = _decorator.jaxtyped
AS_TYPE_ERROR = BeartypeConf(violation_type=TypeError, is_pep484_tower=True)
"""As jaxtyping's own errors are; and a whole number may stand for a float, as it does for mypy."""


def check_once() -> None:
    """Call it before the package is imported."""
    _decorator.jaxtyped = jaxtyping.jaxtyped = _checked


def _checked(*given: Any, **settings: Any) -> Any:
    """What the import hook calls as `jaxtyped`; others that call it get the original."""
    typechecker = settings.get("typechecker")
    if typechecker not in Typechecker.lookup.values():
        return _jaxtyped(*given, **settings)
    if not given:
        return lambda function: _checked(function, typechecker=typechecker)
    (function,) = given
    if not isinstance(function, FunctionType) or _needs_jaxtyping(function):
        return _jaxtyped(function, typechecker=typechecker)
    if not function.__annotations__:
        return function
    checked = typechecker(function, conf=AS_TYPE_ERROR)
    return _with_own_dimensions(checked) if names_a_shape(list(function.__annotations__.values())) else checked


def _needs_jaxtyping(function: FunctionType) -> bool:
    """Whether jaxtyping does more than below: it resolves names as far as it can, and lets generators yield."""
    return inspect.isgeneratorfunction(function) or _names_what_is_not_known_yet(
        list(function.__annotations__.values())
    )


def _with_own_dimensions(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        push_shape_memo({})  # arguments are for sizes such as "{n}", which the package does not use
        try:
            return function(*arguments, **keywords)
        finally:
            pop_shape_memo()

    return checked


def names_a_shape(annotation: Any) -> bool:
    """Whether a part of the annotation, or of a list of them, is an array of jaxtyping's."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(names_a_shape, _parts(annotation)))


def _names_what_is_not_known_yet(annotation: Any) -> bool:
    return isinstance(annotation, str | TypeVar) or any(map(_names_what_is_not_known_yet, _parts(annotation)))


def _parts(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, list):  # such as the arguments of a Callable
        return tuple(annotation)
    return () if _is_literal(annotation) else get_args(annotation)


def _is_literal(annotation: Any) -> bool:
    return str(annotation).startswith("typing.Literal[")
