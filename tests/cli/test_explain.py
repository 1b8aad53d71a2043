"""`quadric explain`: texts from arguments, files and standard input; tables, JSON and files."""

import io
import json
from pathlib import Path

import pytest

from quadric.cli import main
from tests.explanations.small_run import make_small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_run(tmp_path_factory.mktemp("explain"))


def arguments(run: Path, *more: str) -> list[str]:
    return ["explain", str(run), *more, "--model", str(run.parent / "tiny"), "--device", "cpu"]


class Stdin(io.TextIOWrapper):
    """Standard input with some bytes in it."""

    def __init__(self, content: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_a_text_becomes_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(run, "word 3", "--top", "2")) == 0
    shown = capsys.readouterr()
    assert "loading" in shown.err
    lines = shown.out.splitlines()
    assert lines[0].split() == ["token", "latent", "label", "quantile", "energy"]
    assert [line[0] for line in lines[1:13:2]] == ["w", "o", "r", "d", "␣", "3"]


def test_texts_come_from_everywhere_in_order(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes("first é\nsecond\n\n".encode())
    monkeypatch.setattr("sys.stdin", Stdin(b"from stdin\n"))
    more = ["given", "-", "--file", str(tmp_path / "a.txt"), "--lines", "--json"]
    assert main(arguments(run, *more)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["text"] for each in found] == ["given", "from stdin", "first é", "second"]
    monkeypatch.setattr("sys.stdin", Stdin(b"alone\n"))
    assert main(arguments(run, "--json")) == 0
    assert [each["text"] for each in json.loads(capsys.readouterr().out)] == ["alone"]
    assert main(arguments(run, "--file", str(tmp_path / "a.txt"), "--json")) == 0
    assert [each["text"] for each in json.loads(capsys.readouterr().out)] == ["first é\nsecond"]


def test_files_are_written(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(run, "word", "--out", str(tmp_path / "found.csv"), str(tmp_path / "found.json"))) == 0
    assert capsys.readouterr().err.count("wrote") == 2
    assert (tmp_path / "found.csv").read_text(encoding="utf-8").startswith("text,position,token,")
    assert json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))[0]["text"] == "word"


def test_a_run_without_evidence_says_what_is_missing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run / "autoencoders/small"), "word", "--model", str(run.parent / "tiny")]) == 0
    assert "no evidence was given" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["word", "--top", "0"], "top=0 is not positive"),
        ([" "], "a text is empty or white space"),
        (["--file", "nowhere.txt"], "no file 'nowhere.txt'"),
        (["word", "--out", "found.txt"], "choose one of .csv, .json"),
        (["word", "--out", "found.html"], "'found.html': only quadric site writes HTML"),
        (["word", "--name", "other"], "none of them named 'other'"),
        (["a\udcff"], "not valid Unicode"),
    ],
)
def test_mistakes_are_said_in_one_line(
    run: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(run, *more)) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not shown.out


def test_bytes_and_terminals_that_hold_no_text_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(b"\xff\xfe"))
    assert main(arguments(run)) == 1
    assert "standard input is not UTF-8 (byte 0)" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Stdin(b"", terminal=True))
    assert main(arguments(run)) == 1
    assert "there is no text" in capsys.readouterr().err


def test_another_language_model_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.data.tiny import save_tiny

    other = save_tiny(tmp_path / "tiny", "qwen3")
    assert main(["explain", str(run), "word", "--model", str(other), "--device", "cpu"]) == 1
    assert "this model may be another" in capsys.readouterr().err
