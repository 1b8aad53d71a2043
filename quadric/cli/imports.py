"""`--import FILE.py`: kinds and terms of the user's own, registered before a command reads its other flags."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def import_files(arguments: Sequence[str]) -> list[str]:
    """Import every file that --import names.

    Args:
        arguments: of the command line.

    Returns:
        The other arguments.
    """
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
