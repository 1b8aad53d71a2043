"""Progress is a bar on a terminal and plain lines elsewhere."""

import io
import sys

import pytest

from quadric.activations.harvesting import Progress
from quadric.cli import token_progress as module
from quadric.cli.token_progress import token_progress


def test_plain_lines_tell_amount_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, *[10.0 * tick for tick in range(100)]])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    with token_progress("harvest") as show:
        show(Progress(100, 1000, 0))
        show(Progress(200, 1000, 100))
        show(Progress(1000, 1000, 900))
    lines = capsys.readouterr().err.splitlines()
    assert any("200 of 1,000 tokens" in line and "tokens/s" in line and "left" in line for line in lines)
    assert lines[-1].startswith("harvest: 1,000 of 1,000 tokens")
    assert lines[-1].endswith("0:00 left")


def test_plain_lines_do_not_flood(capsys: pytest.CaptureFixture[str]) -> None:
    with token_progress("harvest") as show:
        for done in range(1000):
            show(Progress(done, 1001, done))
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    with token_progress("harvest") as show:
        show(Progress(0, 1000, 0))
        show(Progress(500, 1000, 500))
    assert "500/1000" in terminal.getvalue()
    assert "tokens/s" in terminal.getvalue()
