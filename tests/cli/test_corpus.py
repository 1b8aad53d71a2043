"""`quadric corpus` shows what text there is."""

import json
from pathlib import Path

import pytest

from quadric.cli import main
from tests.data.tiny import save_tiny


def test_without_flags_the_embedded_corpora_are_listed_with_their_licences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus"]) == 0
    output = capsys.readouterr().out
    assert "wiki-leads" in output
    assert "CC BY-SA 4.0" in output
    assert main(["corpus", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["wiki-leads", "wikitext-2"]


def test_stats_of_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "--stats"]) == 0
    output = capsys.readouterr().out
    for words in ("10,033", "held out", "People", "1,828", "not counted; name a --model"):
        assert words in output


def test_tokens_are_counted_by_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("twelve bytes")
    model = save_tiny(tmp_path / "model")
    assert main(["corpus", "--corpus", str(tmp_path / "a.txt"), "--stats", "--model", str(model), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["tokens"], answer["documents"], answer["words"]) == (12, 1, 2)


def test_documents_can_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("one||two||three")
    command = ["corpus", "--corpus", str(tmp_path / "a.txt"), "--document-separator", "||", "--held-out-fraction", "0"]
    assert main([*command, "--show", "2"]) == 0
    assert capsys.readouterr().out.count("document ") == 2


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "--corpus", str(tmp_path / "missing.jsonl"), "--stats"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
