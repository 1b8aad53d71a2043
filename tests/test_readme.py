"""The README and the documentation are correct: examples run, commands exist, links lead to files."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from quadric.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs_as_printed(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert re.match(r"composite with 64 latents\n  error +\d\.\d{4} ", result.stdout)
    assert result.stderr == ""


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_documented_commands_are_understood(page):
    """Every `quadric …` line of a shell block parses: no flag that was renamed, no command that is gone."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.DOTALL):
        for line in re.findall(r"^(?:\$ )?(quadric .*)$", block, re.MULTILINE):
            tyro.extras.subcommand_cli_from_dict(COMMANDS, args=shlex.split(line, comments=True)[1:])


def test_the_two_commands_are_make_targets_on_the_first_screen():
    first_screen = "\n".join(README.splitlines()[:24])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in first_screen
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
