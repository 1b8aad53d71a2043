"""How this process was started, so that the commands it prints can be pasted as they are."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from quadric.cli.output import say


def this_command() -> str:
    """`quadric` where the shell would find this very program under that name, else its path or `python -m quadric`."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return f"{_as_typed(Path(sys.executable))} -m quadric"
    return _as_typed(script) if script.name == "quadric" else "quadric"


def _as_typed(program: Path) -> str:
    """The shortest of name, relative path and absolute path that starts the program."""
    found = shutil.which(program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return program.name
    relative = os.path.relpath(program)
    return shlex.quote(os.path.abspath(program) if relative.startswith(os.pardir) else relative)


def announce(command: str, words: str) -> None:
    """Say what is being started. Importing torch takes seconds, in which nothing else is shown."""
    if os.environ.get("RANK", "0") == "0":
        say(f"quadric {command}: {words} …", file=sys.stderr, flush=True)
