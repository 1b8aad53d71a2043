"""Checks of the values in an architecture; each message names the value and what was expected."""

import math


def check_positive(name: str, value: object) -> None:
    """Refuse a size that is not a whole number ≥ 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} is not a whole number ≥ 1; give at least 1")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")


def check_weight(name: str, value: float, remedy: str) -> None:
    """Refuse a weight of the loss that is not a finite number ≥ 0."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={value} is not a finite number ≥ 0; {remedy}")


def check_seed(seed: int) -> None:
    """Refuse a seed that torch would cut to 32 bits: 2³² would give the weights of 0."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed={seed} is outside 0 … {2**32 - 1}; give one inside, since torch uses 32 bits of a seed")
