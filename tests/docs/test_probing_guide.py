"""The example of docs/probing.md runs, and the page names what the command offers."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from quadric.cli.probe import Data, Output, Probe
from quadric.studies.probing.catalogue import IDENTICAL

GUIDE = Path(__file__).parents[2] / "docs" / "probing.md"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, str(GUIDE), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in printed] == ["ours: latents 1", "ours: latents 2", "ours: latents 5"]


def test_every_flag_and_every_copy_is_named() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    flags = {each.name for part in (Probe, Data, Output) for each in fields(part)} - {"run_folders", "output"}
    assert [flag for flag in sorted(flags) if f"--{flag.replace('_', '-')}" not in text] == []
    assert [name for pair in IDENTICAL.items() for name in pair if name not in text] == []
