"""What commands print cannot act on the terminal, and they end quietly whatever standard output is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quadric import BilinearAutoencoder
from quadric.cli import main
from quadric.cli.label import _said
from quadric.cli.output import say, say_error
from quadric.evidence.labelling import LabellingReport

pytestmark = pytest.mark.slow  # whole commands

EVIL = "\x1b[31mred\x07\x00\u202eright to left\x9b"
CONTROL = ("\x1b", "\x07", "\x00", "\u202e", "\x9b")


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Everything printed so far, in which nothing acts on a terminal."""
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert not any(letter in shown for letter in CONTROL), shown
    return shown


def test_what_is_said_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    say(EVIL, file=sys.stderr)
    say_error(f"{EVIL}\nsecond line")
    assert "quadric: \\x1b[31mred\\x07\\x00\\u202eright to left\\x9b second line\n" in printed(capsys)


@pytest.mark.parametrize("form", [["--show", "3"], ["--stats"], ["--show", "3", "--json"], ["--stats", "--json"]])
def test_a_corpus_with_control_characters(form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": f"{EVIL} {n}", "topic": EVIL}) + "\n" for n in range(3)))
    assert main(["corpus", "--corpus", str(path), "--topic-field", "topic", "--held-out-fraction", "0", *form]) == 0
    shown = printed(capsys)
    if "--json" in form:
        values = json.loads(shown)  # a program gets the text unchanged
        assert EVIL in (values["topics"] if "--stats" in form else values[0]["text"])
    else:
        assert "\\x1b[31mred" in shown


def test_an_error_about_a_file_with_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "\x1b[31mrun\u202e")]) == 1
    assert "\\x1b[31mrun\\u202e" in printed(capsys)
    (tmp_path / "config.json").write_text(json.dumps({"format": "quadric-autoencoder", "format_version": 4, EVIL: 1}))
    assert main(["report", str(tmp_path)]) == 1
    assert "unknown keys" in printed(capsys)


def test_a_demo_with_control_characters_in_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site/data").mkdir(parents=True)
    (tmp_path / "site/data/site.json").write_text("{}")
    record = {"latent": 1, "label": EVIL, "shape": EVIL, "importance": 2.0}
    (tmp_path / "demo.json").write_text(json.dumps([record]))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "\\x1b[31mred" in printed(capsys)


def test_labels_with_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    _said(LabellingReport({0: EVIL}, 0, {1: EVIL}), [0, 1], None)
    assert printed(capsys).count("\\x1b[31mred") == 2


@pytest.mark.parametrize("name", ["[/x]", "o[bold]y", "[link=http://evil]l", ":smile:"])
def test_a_folder_named_like_markup_is_printed_as_it_is(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for run in (name, f"{name}2"):
        ae = BilinearAutoencoder(d_model=6, n_latents=4, prior="atomic")
        ae.save_pretrained(tmp_path / "runs" / run)
    assert main(["report", f"runs/{name}"]) == 0
    assert f"runs/{name}\n" in printed(capsys)
    assert main(["compare", f"runs/{name}", f"runs/{name}2"]) == 0
    assert f" {name.rpartition('/')[2]} " in printed(capsys)


def command(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quadric", *arguments], stderr=subprocess.PIPE, text=True, check=False, **settings
    )


@pytest.mark.parametrize("arguments", [["--help"], ["corpus"], ["--version"]], ids=" ".join)
def test_a_closed_standard_output_ends_a_command_quietly(arguments: list[str]) -> None:
    result = command(*arguments, preexec_fn=lambda: os.close(1))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["corpus"], ["--version"]], ids=" ".join)
def test_a_full_standard_output_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        result = command(*arguments, stdout=full)
    assert result.returncode == 1
    assert result.stderr == (
        "quadric: standard output cannot be written (No space left on device); redirect it elsewhere\n"
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_the_encoding_lacks_are_escaped(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    plan = ["plan", "--d-model", "16", "--n-latents", "8", "--batch-tokens", "64", "--steps", "3"]
    for arguments in (plan, ["train", "--help"]) if encoding == "ascii" else (["train", "--help"],):
        result = command(*arguments, stdout=subprocess.PIPE, env=environment, encoding=encoding)
        assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("columns", ["1", "5", "10"])
def test_tables_end_on_the_narrowest_terminal(
    columns: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    BilinearAutoencoder(d_model=6, n_latents=4, prior="atomic").save_pretrained(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out) < 20_000
