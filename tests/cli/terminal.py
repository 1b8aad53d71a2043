"""What a test needs to see of stderr: complaints apart from announcements, and a pseudo-terminal."""

import os
import pty
import re

from tests import fresh_process


def complaints(stderr: str) -> list[str]:
    """The lines that are errors; `quadric train: preparing …` only announces slow work."""
    return [line for line in stderr.splitlines() if line.startswith("quadric: ")]


def only_complaint(stderr: str) -> str:
    """The one error; everything else on stderr is an announcement, so no traceback either."""
    (line,) = complaints(stderr)
    others = [other for other in stderr.splitlines() if other != line]
    assert all(other.startswith("quadric ") and other.endswith(" …") for other in others), stderr
    return line


def run_on_a_terminal(code: str, *arguments: str) -> tuple[int, str]:
    """Run Python code with stdout and stderr on a pseudo-terminal; returns the exit code and all text shown."""
    ours, theirs = pty.openpty()
    looks = {"COLUMNS": "100", "TERM": "xterm"}
    process = fresh_process.start(code, *arguments, environment=looks, terminal=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux reports the end of a terminal like this
            break
        if not piece:
            break
        shown += piece
    returned = process.wait().returncode
    os.close(ours)
    return returned, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
