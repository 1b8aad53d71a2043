"""Checks of shapes at the price of shapes: functions whose annotations name none have their types checked alone.

`--jaxtyping-packages` lets `jaxtyped` wrap every function of the package, also those that take two numbers: each call
binds the arguments, keeps a record of dimensions, and checks the arguments twice. That was a quarter of the time of all
tests. The record serves annotations that name dimensions; for the others beartype alone finds the same errors.
"""

import inspect
from types import FunctionType
from typing import Any, TypeVar, get_args

import jaxtyping
from beartype import BeartypeConf
from jaxtyping import _decorator

_jaxtyped = _decorator.jaxtyped
AS_TYPE_ERROR = BeartypeConf(violation_type=TypeError)
"""As jaxtyping's own errors are."""


def check_shapes_where_they_are_named() -> None:
    """Call it before the package is imported."""
    _decorator.jaxtyped = jaxtyping.jaxtyped = _checked


def _checked(function: Any = None, *, typechecker: Any) -> Any:
    if function is None:
        return lambda given: _checked(given, typechecker=typechecker)
    if isinstance(function, FunctionType):
        annotations = function.__annotations__
        if not annotations:
            return function
        if not any(may_name_a_shape(each) for each in annotations.values()):
            return typechecker(function, conf=AS_TYPE_ERROR)
    return _jaxtyped(function, typechecker=typechecker)


def may_name_a_shape(annotation: Any) -> bool:
    """Whether a part of it is an array of jaxtyping's, or something that only jaxtyping's own reading resolves."""
    if isinstance(annotation, list):  # the arguments of a Callable
        return any(map(may_name_a_shape, annotation))
    if isinstance(annotation, str | TypeVar):
        return True
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(may_name_a_shape, get_args(annotation)))
