"""What commands print: text that a terminal shows and never acts on."""

import io
import os
import sys
from contextlib import suppress
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
