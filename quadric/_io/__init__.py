"""Files, locks, tables and progress: what every room needs and none is about.

`attach` makes the names of a package importable on first use, so that `quadric --help` need not wait for torch.
"""

from collections.abc import Callable
from typing import Any

import lazy_loader


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the .pyi file beside its `__init__.py`."""
    load, directory, names = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers {', '.join(names)}")
        return load(name)

    return attribute, directory, names
