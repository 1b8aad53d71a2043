"""Import a package that only an environment of its own has, or skip the tests that need it.

`make interop` makes that environment and runs these tests.
"""

import warnings
from types import ModuleType

import pytest


def real_package(name: str) -> ModuleType:
    """The package; its own deprecation warnings are no failures of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: ModuleType = pytest.importorskip(name, exc_type=ImportError)
    return module
