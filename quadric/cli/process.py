"""A command as a process: how it was started, the files it imports, its streams, and the signal that ends it."""

import argparse
import io
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType


def this_command() -> str:
    """How to start this program again: `quadric` where the shell finds it, else its path or `python -m quadric`."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return f"{_as_typed(Path(sys.executable))} -m quadric"
    return _as_typed(script) if script.name == "quadric" else "quadric"


def _as_typed(program: Path) -> str:
    """The shortest of name, relative path and absolute path that starts the program."""
    on_path = shutil.which(program.name)
    if on_path is not None and os.path.abspath(on_path) == os.path.abspath(program):
        return program.name
    relative = os.path.relpath(program)
    return shlex.quote(os.path.abspath(program) if relative.startswith(os.pardir) else relative)


def import_files(arguments: Sequence[str]) -> list[str]:
    """Import every file that --import names, so that kinds and terms of the user's own have their flags.

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


def open_missing_streams() -> None:
    """Make standard output and error writable, whatever the shell did to them.

    A stream that was closed (`>&-`) is None in Python, and the next file that is opened would get its number. Letters
    that the terminal's encoding lacks are shown as escapes.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115, open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stdout_failure() -> OSError | None:
    """Why standard output cannot be written, if so; then it is pointed at nothing, so that Python can exit quietly."""
    try:
        print(flush=True)  # an empty line, since the lines that could not be written may no longer be buffered
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return problem
    return None


class Terminated(KeyboardInterrupt):
    """The process was asked to end."""

    signal = signal.SIGTERM


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block on SIGTERM, so that work is saved and files are removed as after Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, which is the only one that may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
