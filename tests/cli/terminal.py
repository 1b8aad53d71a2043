"""What a test needs to see of stderr: complaints apart from announcements, and a pseudo-terminal."""

import os
import pty
import re
import subprocess
import sys


def complaints(stderr: str) -> list[str]:
    """The lines that are errors; `quadric train: preparing …` only announces slow work."""
    return [line for line in stderr.splitlines() if line.startswith("quadric: ")]


def only_complaint(stderr: str) -> str:
    """The one error; everything else on stderr is an announcement, so no traceback either."""
    (line,) = complaints(stderr)
    others = [other for other in stderr.splitlines() if other != line]
    assert all(other.startswith("quadric ") and other.endswith(" …") for other in others), stderr
    return line


def run_on_a_terminal(*command: str, **environment: str) -> tuple[int, str]:
    """Run Python with stdout and stderr on a pseudo-terminal; returns the exit code and all text shown."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm", **environment},
    ) as process:
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
        code = process.wait(timeout=300)
    os.close(ours)
    return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
