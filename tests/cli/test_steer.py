"""`quadric steer` on a tiny model: tables, JSON, files, and one line for every mistake."""

import csv
import json
from pathlib import Path

import pytest

from quadric.cli import main
from tests.tiny_runs import make_tiny_world, train_command

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_tiny_world(tmp_path_factory.mktemp("world"))
    assert main(train_command(folder, folder / "run", "--prior", "composite")) == 0
    assert main(train_command(folder, folder / "topk", "--prior", "topk")) == 0
    where = ["--model", str(folder / "tiny-llama"), "--corpus", str(folder / "text.txt")]
    site = [
        "site",
        str(folder / "run"),
        *where,
        "--tokens",
        "600",
        "--points",
        "40",
        "--no-map",
        "--out",
        str(folder / "site"),
    ]
    assert main(site) == 0
    (folder / "prompts.txt").write_text("# a comment\n\n" + "\n".join(f"Family {n} is" for n in range(5)) + "\n")
    return folder


def steer(world: Path, *more: str) -> int:
    where = ["--model", str(world / "tiny-llama"), "--corpus", str(world / "text.txt"), "--device", "cpu"]
    sizes = [
        "--seeds",
        "0",
        "--new-tokens",
        "2",
        "--corpus-tokens",
        "400",
        "--prompts",
        str(world / "prompts.txt"),
    ]
    return main(["steer", str(world / "run"), *where, *sizes, "--latent", "3", *more])


def test_table_json_and_files_agree(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("curve.csv", "curve.json")]
    topk = ["--topk", str(world / "topk")]
    assert steer(world, *topk, "--json", "--match", "hellinger", "following", "--out", *files) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "curve.json").read_text())
    assert found["latent"] == 3
    assert len(found["rows"]) == 1 + 3 * (1 + 2 * 5)
    with (tmp_path / "curve.csv").open(newline="") as file:
        stored = list(csv.DictReader(file))
    assert [float(row["text_divergence"]) for row in stored if row["method"] == "quadric"] == [
        row["text_divergence"] for row in found["rows"] if row["method"] == "quadric"
    ]
    value = found["rows"][1]["to"]
    assert steer(world, "--to", repr(value)) == 0
    table = capsys.readouterr().out
    assert table.count("random quadric") == 2
    assert "fires on:" in table
    assert max(map(len, table.splitlines())) <= 80


def test_mistakes_are_one_line_and_write_nothing(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.txt").write_text("only one\n")
    (tmp_path / "none.txt").write_text("# nothing\n")
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe\x00")
    other = tmp_path / "other"
    from tests.data.tiny import save_tiny

    save_tiny(other, "qwen3")
    out = tmp_path / "curve.csv"
    for flags, words in (
        (["--latent", "99"], "latent=99 is outside 0 … 23"),
        (["--to", "nan"], "no finite values"),
        (["--prompts", str(tmp_path / "gone.txt")], "no file"),
        (["--prompts", str(tmp_path / "none.txt")], "has no prompts; write one per line"),
        (["--prompts", str(tmp_path / "odd.txt")], "is not UTF-8 text"),
        (["--prompts", str(tmp_path / "one.txt")], "1 different prompts are too few"),
        (["--model", str(other)], "of its own model with --model"),
        (["--topk", str(world / "run")], "has no TopK dictionary; train one"),
        (["--out", str(tmp_path / "curve.txt")], "curve.txt"),
    ):
        given = flags if "--out" in flags else [*flags, "--out", str(out)]
        assert steer(world, *given) == 1, flags
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line.startswith("quadric: ")]
        assert len(lines) == 1, printed.err
        assert words in lines[0]
        assert not out.exists()


def test_ablation_is_printed_written_and_kept_for_figures(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--model", str(world / "tiny-llama"), "--corpus", str(world / "text.txt"), "--device", "cpu"]
    sizes = ["--latents", "3", "--sequences", "2", "--texts", "6"]
    out = ["--out", str(tmp_path / "rows.csv")]
    assert main(["ablate", str(world / "run"), *where, *sizes, "--json", *out]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    (kept,) = (world / "run" / "ablation").iterdir()
    assert json.loads(kept.read_text()) == rows
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert [int(row["latent"]) for row in csv.DictReader(file)] == [row["latent"] for row in rows]
    assert main(["ablate", str(world / "run"), *where, *sizes, "--mode", "rest"]) == 0
    table = capsys.readouterr().out
    assert "same form, turned" in table
    assert max(map(len, table.splitlines())) <= 80
    assert main(["figures", str(world / "run"), "--only", "ablation", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "ablation.png").is_file()
    capsys.readouterr()
    assert main(["ablate", str(world / "run"), *where, "--latents", "0"]) == 1
    assert "latents=0 is not positive" in capsys.readouterr().err


def test_a_run_without_evidence_names_the_command(world: Path, tmp_path: Path, capsys) -> None:
    import shutil

    shutil.copytree(world / "run", tmp_path / "bare", ignore=shutil.ignore_patterns("evidence"))
    assert main(["steer", str(tmp_path / "bare"), "--latent", "3", "--prompts", str(world / "prompts.txt")]) == 1
    assert "make evidence with quadric site" in capsys.readouterr().err
