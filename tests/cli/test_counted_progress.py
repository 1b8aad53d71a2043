"""Progress off a terminal: plain lines, and none for quick work."""

from quadric.cli import counted_progress as module
from quadric.cli.counted_progress import counted_progress


def test_quick_work_is_silent(capsys):
    with counted_progress("spectra", 10) as advance:
        advance(10)
    assert capsys.readouterr().err == ""


def test_slow_work_is_counted_in_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with counted_progress("spectra", 10) as advance:
        advance(4)
        advance(6)
    assert capsys.readouterr().err == "spectra 4/10\nspectra 10/10\n"


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with counted_progress("spectra", 10) as advance:
        advance(10)
    assert "spectra" in capsys.readouterr().err
