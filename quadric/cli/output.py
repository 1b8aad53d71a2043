"""What commands print: text that a terminal shows and never acts on, on streams that can be written."""

import io
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from quadric._io.terminal import one_line, printable, printable_json


def say(text: str = "", *, file: Any = None, flush: bool = False) -> None:
    """Print text on standard output, or on another file; see `printable` for what it shows as escapes."""
    print(printable(text), file=sys.stdout if file is None else file, flush=flush)


def say_json(values: Any, *, indent: int | None = None, allow_nan: bool = False) -> None:
    """Print values as JSON on standard output."""
    print(printable_json(values, indent=indent, allow_nan=allow_nan))


def say_error(text: str) -> None:
    """Print one line on standard error; if that cannot be written either, there is nobody left to tell."""
    with suppress(OSError, ValueError):
        print(f"quadric: {one_line(text)}", file=sys.stderr, flush=True)


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


def announce(command: str, words: str) -> None:
    """Say what is being started. Importing torch takes seconds, in which nothing else is shown."""
    if os.environ.get("RANK", "0") == "0":
        say(f"quadric {command}: {words} …", file=sys.stderr, flush=True)


def announce_preparation(model: str) -> None:
    """Say that an embedded model is unpacked first, if it is."""
    from quadric.data.models import preparation

    if (words := preparation(model)) is not None:
        say(words, file=sys.stderr)


def write_results(paths: Iterable[Path], write: Callable[[Path], object]) -> None:
    """Write a result to every file of --out, and say so."""
    for path in paths:
        write(path)
        say(f"wrote {path}", file=sys.stderr)


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
