"""What tests of devices share: processes of their own for both characters, and a world to run in."""

import json
from pathlib import Path
from typing import Any

from tests import fresh_process
from tests.devices.simulated import Character
from tests.docs.example_world import make_example_world
from tests.docs.test_docstring_examples import working_in


def make_world(folder: Path) -> Path:
    """The world of the examples, with prompts to steer and texts to probe."""
    with working_in(folder):
        make_example_world()
    (folder / "prompts.txt").write_text("".join(f"Monday comes {number}\n" for number in range(5)))
    rows = [f"{'a cat' if number % 2 else 'my dog'} and {number * 7919 % 101},{number % 2}" for number in range(48)]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return folder


def report_of(module: str, character: Character, folder: Path, *arguments: object) -> dict[str, Any]:
    """Run `tests.devices.MODULE` with an accelerator of this character, and read what it wrote."""
    report = folder / f"{module}-{character}.json"
    code = fresh_process.module(f"tests.devices.{module}")
    finished = fresh_process.start(code, character, report, *arguments).wait(timeout=550)  # on a busy machine
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(report.read_text())
    return found
