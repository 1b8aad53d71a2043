"""What commands print: text that a terminal shows and never acts on."""

import os
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
