"""The command line: parse, call, print; no mathematics.

One file per command. A command is a frozen dataclass whose fields become flags and whose `run` returns the exit code.
Its module imports nothing heavy at the top, so that `--help` is shown at once.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import tyro

from quadric.cli.compare import Compare
from quadric.cli.concepts import Concepts
from quadric.cli.corpus import Corpus
from quadric.cli.demo import Demo
from quadric.cli.evaluate import Evaluate
from quadric.cli.figures import Figures
from quadric.cli.harvest import Harvest
from quadric.cli.label import Label
from quadric.cli.plan import Plan
from quadric.cli.report import Report
from quadric.cli.site import Site
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
    "sweep": Sweep,
    "figures": Figures,
    "concepts": Concepts,
}
DESCRIPTION = """See the shape of what a language model knows. --version prints the version.

Example: quadric demo
         quadric train --model smollm2 --layer 15 --prior composite --out runs/first
         quadric train --help
"""
NARROWEST = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 for success, 1 for a mistake in what was asked for; tyro exits with 2 for flags that it does not understand.
    """
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # here, also after --help: a closed pipe cannot be handled while Python exits
    except (ValueError, OSError) as mistake:
        if isinstance(mistake, BrokenPipeError) and _stdout_closed():
            return 1  # silently, like other programs whose reader has stopped reading
        # The library names the value and the remedy in these errors; a traceback would hide them.
        if os.environ.get("QUADRIC_DEBUG"):
            raise
        print(f"quadric: {mistake}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quadric: interrupted", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:
        print(__version__)
        return 0
    with _wide_enough():
        command: Command = tyro.extras.subcommand_cli_from_dict(
            _commands(arguments), prog="quadric", description=DESCRIPTION, args=arguments
        )
    return command.run()


def _commands(arguments: Sequence[str]) -> dict[str, Callable[..., Command]]:
    """The commands; with one line of description each where the help page lists them all."""
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS
    return {name: _summarized(command) for name, command in COMMANDS.items()}


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


def _stdout_closed() -> bool:
    """Whether the reader of stdout is gone (`quadric report RUN | head -1`); then stdout is pointed at nothing."""
    try:
        print(flush=True)  # an empty line, since the lines that could not be written may no longer be buffered
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
