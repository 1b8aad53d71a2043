"""The command line: parse, call, print; no mathematics.

One file per command: `quadric train` is the class `Train` in `train.py`, a frozen dataclass whose fields become flags
and whose `run` returns the exit code. Its module imports nothing heavy at the top, so that `--help` is shown at once.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import tyro

from quadric._io.terminal import NARROWEST
from quadric.cli.flags import shortened
from quadric.cli.output import open_missing_streams, say, say_error, stdout_failure
from quadric.cli.run_flags import RunFlags, import_files
from quadric.version import __version__

# In the order in which a new user meets them: the whole first, then the stages in the order of the data flow.
NAMES = (
    "demo", "corpus", "harvest", "plan", "train", "evaluate", "report", "compare", "site", "label", "view", "explain",
    "export", "sweep", "figures", "concepts", "probe", "steer", "ablate",
)  # fmt: skip
COMMANDS: dict[str, Any] = {name: getattr(import_module(f"quadric.cli.{name}"), name.title()) for name in NAMES}
DESCRIPTION = """See the shape of what a language model knows. --version prints the version; every command takes
--import FILE.py, a file that registers kinds of dictionary and terms of the loss of your own.

Example: quadric demo
         quadric train --model smollm2 --layer 15 --prior composite --out runs/first
         quadric train --help
"""
HELP_ALL = "--help-all"
STDOUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)
"""Errors that a write to standard output may give."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 for success, 1 for a mistake in what was asked for; tyro exits with 2 for flags that it does not understand.
    """
    open_missing_streams()
    try:
        with terminable():
            try:
                return _run(sys.argv[1:] if argv is None else argv)
            finally:
                sys.stdout.flush()  # here, also after --help: a closed pipe cannot be handled while Python exits
    except (ValueError, OSError, MemoryError) as mistake:
        return _complain(mistake)
    except KeyboardInterrupt as stopped:
        if argv is None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # another Ctrl-C while Python exits prints no traceback
        number = getattr(stopped, "signal", signal.SIGINT)
        say_error("terminated" if number == signal.SIGTERM else "interrupted")
        return 128 + int(number)


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


def _complain(mistake: Exception) -> int:
    """Print an error in one line. The library names the value and the remedy; a traceback would hide them."""
    why = stdout_failure() if isinstance(mistake, OSError) and mistake.errno in STDOUT_ERRORS else None
    if isinstance(mistake, BrokenPipeError) and why is not None:
        return 1  # silently, like other programs whose reader has stopped reading
    if os.environ.get("QUADRIC_DEBUG"):
        raise mistake
    if why is not None and not isinstance(why, BrokenPipeError):
        say_error(f"standard output cannot be written ({why.strerror}); redirect it elsewhere")
    elif isinstance(mistake, MemoryError):
        say_error(f"there is not enough memory ({mistake}); give smaller sizes, or use a larger machine")
    else:
        say_error(str(mistake))
    return 1


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:
        say(__version__)
        return 0
    others = import_files(arguments)
    name = others[0] if others else ""
    has_many_flags = name in COMMANDS and issubclass(COMMANDS[name], RunFlags)
    if not has_many_flags:  # these commands have no --import of their own
        arguments = others
    is_short = has_many_flags and not {"-h", "--help"}.isdisjoint(arguments) and HELP_ALL not in arguments
    if shutil.get_terminal_size().columns < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)  # in fewer than ten or so, tyro's line breaking never ends
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            _commands(name, is_short),
            prog="quadric",
            description=DESCRIPTION,
            args=["--help" if word == HELP_ALL else word for word in arguments],
        )
    except SystemExit as stop:
        if is_short and not stop.code:
            say(f"{HELP_ALL} shows all flags.")
        raise
    return int(command.run())


def _commands(name: str, is_short: bool) -> dict[str, Any]:
    """The commands; with one line of description each where the help page lists them all."""
    if name not in COMMANDS:
        return {known: _summarized(command) for known, command in COMMANDS.items()}
    if is_short:
        return COMMANDS | {name: shortened(COMMANDS[name], COMMANDS[name].shown_first)}
    return COMMANDS


def _summarized(command: Any) -> Any:
    return type(command.__name__, (command,), {"__doc__": (command.__doc__ or "").split("\n\n")[0]})
