"""The command line: parse, wire, print; no mathematics.

One file a command. A command is a frozen dataclass whose fields become flags and whose `run` returns the exit
code; its module imports nothing heavy at the top, so that `--help` answers at once.
"""

import os
import sys
from collections.abc import Callable, Sequence
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


class Command(Protocol):
    """What every command offers."""

    def run(self) -> int: ...


# In the order in which a new user meets them: the whole, then the stages as data flows through them.
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a mistake in what was asked, 2 a mistake in how it was asked."""
    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS, prog="quadric", description="See the shape of what a language model knows.", args=argv
    )
    try:
        code = command.run()
        sys.stdout.flush()
        return code
    except (ValueError, OSError) as mistake:
        if isinstance(mistake, BrokenPipeError) and _stdout_closed():
            return 1  # and no word, as rich does where it prints
        # The library names the value and the remedy in these; a traceback would bury them.
        if os.environ.get("QUADRIC_DEBUG"):
            raise
        print(f"quadric: {mistake}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quadric: interrupted", file=sys.stderr)
        return 130


def _stdout_closed() -> bool:
    """Whether our reader has seen enough (`quadric report RUN | head`); then what is left to print goes nowhere."""
    try:
        print(flush=True)  # an empty line, since what could not be written may be forgotten by now
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
