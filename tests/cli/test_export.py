"""`quadric export`: what it writes, what it prints, and mistakes in one line."""

import json
from pathlib import Path

import pytest

from quadric.cli import main
from tests.explanations.small_run import make_small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_run(tmp_path_factory.mktemp("export"))


def test_a_dictionary_is_written_and_the_lines_that_load_it_are_printed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), "--to", "saelens", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    first, *lines = shown.out.splitlines()
    assert first.startswith(f"Wrote {tmp_path / 'out'} for saelens: 2 files, ")
    assert lines == [
        "import quadric.interop.saelens",
        "from sae_lens import SAE",
        f"sae = SAE.load_from_disk({str(tmp_path / 'out')!r})",
    ]
    assert "loading" in shown.err


def test_printed_lines_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--model", str(run.parent / "tiny"), "--corpus", str(run.parent / "texts"), "--device", "cpu"]
    for to, flags, name in (("saebench", [], "selected_saes"), ("neuronpedia", place, "activations")):
        out = str(tmp_path / to)
        assert main(["export", str(run), "--to", to, "--out", out, "--model-name", "small", "--json", *flags]) == 0
        found = json.loads(capsys.readouterr().out)
        names: dict[str, object] = {}
        exec(found["load"], names)
        assert names[name]
        assert (found["to"], found["folder"]) == (to, out)


def test_progress_is_reported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--model", str(run.parent / "tiny"), "--corpus", str(run.parent / "texts"), "--device", "cpu"]
    rule = ["--quantile", "0.95", "--side", "negative", "--tokens", "500"]
    assert main(["export", str(run), "--to", "delphi", "--out", str(tmp_path / "out"), *place, *rule]) == 0
    shown = capsys.readouterr()
    assert "activations: 500 of 500 tokens" in shown.err
    assert "LatentDataset" in shown.out
    config = json.loads((tmp_path / "out/latents/layers.1/config.json").read_text())
    assert config["quadric"]["firing"] == {"quantile": 0.95, "side": "negative"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--to", "saelens", "--quantile", "0.9"], "quantile has no meaning for saelens"),
        (["--to", "delphi", "--quantile", "0.9", "--device", "cpu"], "choose one of 0.75, 0.95, 0.99, 0.999"),
        (["--to", "saelens", "--name", "other"], "none of them named 'other'"),
        (["--to", "delphi", "--cache", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    place = ["--model", str(run.parent / "tiny"), "--corpus", str(run.parent / "texts")] if "cpu" in flags else []
    assert main(["export", str(run), "--out", str(tmp_path / "out"), *flags, *place]) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not (tmp_path / "out").exists()


def test_a_missing_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path / "none"), "--to", "saelens", "--out", str(tmp_path / "out")]) == 1
    assert "no folder" in capsys.readouterr().err
