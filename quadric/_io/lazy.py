"""Packages whose names are imported on first use, so that `quadric --help` need not wait for torch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import lazy_loader


class Attached(NamedTuple):
    """The `__getattr__`, `__dir__` and `__all__` of a package."""

    find: Callable[[str], Any]
    directory: Callable[[], list[str]]
    names: list[str]


def attach(package: str, file: str) -> Attached:
    """Read the names of a package from the .pyi file beside its `__init__.py`, where type checkers see them too.

    Args:
        package: Its `__name__`.
        file: Its `__file__`.
    """
    load, directory, names = lazy_loader.attach_stub(package, file)

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers {', '.join(names)}")
        return load(name)

    return Attached(find, directory, names)
