"""The examples of docs/how-to/extending.md, run from top to bottom in an empty folder."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: title=\"(\S+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {title: code for _, title, code in BLOCK.findall(TEXT) if title}
LONGEST_KIND = 40


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, from which modules are imported; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for file in FILES:
        sys.modules.pop(Path(file).stem, None)


@pytest.mark.slow
def test_the_examples_run(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for language, title, code in BLOCK.findall(TEXT):
        if title:
            Path(title).write_text(code, encoding="utf-8")
        elif language == "python":
            exec(compile(code, "extending.md", "exec"), names)
        elif code.startswith("python -c"):
            check_fails_as_shown(code, empty_folder)
    assert "planes with 12 latents" in capsys.readouterr().out
    assert len(names["seen"]) < 40, "the callback stops"
    assert len(Path("runs/stopped/metrics.jsonl").read_text().splitlines()) == 40, "and without it the rest is trained"
    (term,) = (each for each in stored_loss("runs/term") if each["name"] == "log_sparsity")
    assert term == {"name": "log_sparsity", "weight": 0.002, "scale": 0.02}
    reported = [json.loads(line) for line in Path("runs/term/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in reported] == list(range(1, 31)), "the run was resumed"
    assert all(line["log_sparsity"] > 0 for line in reported)


def check_fails_as_shown(command: str, folder: Path) -> None:
    """A fresh process ends with the error that the page shows below the command."""
    shown = TEXT.partition(command)[2].partition("```text\n")[2].partition("\n```")[0]
    program = command.partition('"')[2].rpartition('"')[0]
    ended = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == shown


def stored_loss(run: str) -> list[dict[str, object]]:
    record = json.loads(Path(run, "run.json").read_text(encoding="utf-8"))
    return list(record["cells"][0]["loss"])


def test_a_kind_is_short() -> None:
    assert len(FILES["planes.py"].splitlines()) <= LONGEST_KIND
    assert set(FILES) == {"log_sparsity.py", "blocks.py", "planes.py"}
