"""The command line: parse, call, print; no mathematics.

One file per command. A command is a frozen dataclass whose fields become flags and whose `run` returns the exit code.
Its module imports nothing heavy at the top, so that `--help` is shown at once.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import tyro

from quadric._io.terminal import NARROWEST
from quadric.cli.ablate import Ablate
from quadric.cli.compare import Compare
from quadric.cli.concepts import Concepts
from quadric.cli.corpus import Corpus
from quadric.cli.demo import Demo
from quadric.cli.evaluate import Evaluate
from quadric.cli.explain import Explain
from quadric.cli.export import Export
from quadric.cli.figures import Figures
from quadric.cli.flags import shortened
from quadric.cli.harvest import Harvest
from quadric.cli.imports import import_files
from quadric.cli.label import Label
from quadric.cli.output import open_missing_streams, say, say_error, stdout_failure
from quadric.cli.plan import Plan
from quadric.cli.probe import Probe
from quadric.cli.report import Report
from quadric.cli.run_flags import RunFlags
from quadric.cli.signals import terminable
from quadric.cli.site import Site
from quadric.cli.steer import Steer
from quadric.cli.sweep import Sweep
from quadric.cli.train import Train
from quadric.cli.view import View
from quadric.version import __version__


class Command(Protocol):
    """What every command offers."""

    def run(self) -> int: ...


# In the order in which a new user meets them: the whole first, then the stages in the order of the data flow.
COMMANDS: dict[str, Callable[..., Command]] = {
    "demo": Demo,
    "corpus": Corpus,
    "harvest": Harvest,
    "plan": Plan,
    "train": Train,
    "evaluate": Evaluate,
    "report": Report,
    "compare": Compare,
    "site": Site,
    "label": Label,
    "view": View,
    "explain": Explain,
    "export": Export,
    "sweep": Sweep,
    "figures": Figures,
    "concepts": Concepts,
    "probe": Probe,
    "steer": Steer,
    "ablate": Ablate,
}
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
    chosen = COMMANDS.get(others[0]) if others else None
    if not _trains(chosen):
        arguments = others
    is_short = _trains(chosen) and not {"-h", "--help"}.isdisjoint(arguments) and HELP_ALL not in arguments
    try:
        with _wide_enough():
            command: Command = tyro.extras.subcommand_cli_from_dict(
                _commands(others[0] if others else "", is_short),
                prog="quadric",
                description=DESCRIPTION,
                args=["--help" if word == HELP_ALL else word for word in arguments],
            )
    except SystemExit as stop:
        if is_short and not stop.code:
            say(f"{HELP_ALL} shows all flags.")
        raise
    return command.run()


def _trains(command: object) -> bool:
    """Whether a command has the many flags of a run, of which help shows the first ones."""
    return isinstance(command, type) and issubclass(command, RunFlags)


def _commands(name: str, is_short: bool) -> dict[str, Callable[..., Command]]:
    """The commands; with one line of description each where the help page lists them all."""
    if name not in COMMANDS:
        return {each: _summarized(command) for each, command in COMMANDS.items()}
    if is_short:
        command: Any = COMMANDS[name]
        return COMMANDS | {name: shortened(command, command.shown_first)}
    return COMMANDS


def _summarized(command: Callable[..., Command]) -> Callable[..., Command]:
    assert isinstance(command, type)
    return type(command.__name__, (command,), {"__doc__": (command.__doc__ or "").split("\n\n")[0]})


@contextmanager
def _wide_enough() -> Iterator[None]:
    """Pretend that a very narrow terminal is wider: tyro's line breaking never ends below ten columns or so."""
    before = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns >= NARROWEST:
        yield
        return
    os.environ["COLUMNS"] = str(NARROWEST)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
