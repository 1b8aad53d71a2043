"""`quadric probe`: a run on a file of one's own; tables, JSON, files and the figure; mistakes in one line."""

import csv
import json
from pathlib import Path

import pytest

from quadric.cli import main
from tests.explanations.small_run import make_small_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_run(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "animals.csv"
    rows = [f"{'a cat' if n % 2 else 'my dog'} and {n * 7919 % 101},{n % 2}" for n in range(48)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def arguments(run: Path, out: Path, *more: str) -> list[str]:
    return ["probe", str(run), *more, "--out", str(out), "--model", str(run.parent / "tiny"), "--device", "cpu"]


def test_a_file_becomes_tables_a_figure_and_json(
    run: Path, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "probing"
    angles = labelled.with_name("angles.jsonl")
    angles.write_text("".join(json.dumps({"text": f"turn {n}", "label": 10 * n}) + "\n" for n in range(36)))
    given = ["--data", str(angles), "--period", "360", "--sets", "weekdays", "--seeds", "2", "--rows", "40"]
    assert main(arguments(run, out, *given)) == 0
    shown = capsys.readouterr()
    assert "run: eigenspace" in shown.out
    assert main(arguments(run, out, "--data", str(labelled), "--seeds", "2", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["label"] for each in found["summary"]["auc"]} == set()  # words alone tell cats from dogs
    assert found["sets"][0]["trivial"]
    assert {path.name for path in out.iterdir()} == {
        *("probing.json", "probes.csv", "sets.csv", "regressions.csv", "report.md", "vectors"),
        *("probing.png", "probing.svg", "probing.csv"),
    }
    with (out / "probes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["family"] for row in rows} == {
        *("latents", "linear part", "quadratic part", "random", "raw", "pca", "degree 2")
    }
    assert json.loads((out / "probing.json").read_text()) == found
    assert "left out" in (out / "report.md").read_text()
    assert len(list((out / "vectors").iterdir())) == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--sets", "weekday"], "no set 'weekday' (did you mean weekdays"),
        (["--seeds", "1"], "seeds=1 is too small"),
        (["--data", "nowhere.csv"], "no file 'nowhere.csv'"),
        (["--period", "7"], "--period describes a file of your own; give it with --data"),
        (["--layer", "9"], "no autoencoder at layer 9; the runs have resid_pre.2"),
        (["--layer", "nine"], "unknown hook point 'nine'"),
        (["--name", "other"], "none of them named 'other'"),
    ],
)
def test_mistakes_are_said_in_one_line_and_write_nothing(
    run: Path, tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "probing"
    assert main(arguments(run, out, *more)) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not shown.out
    assert not out.exists()


def test_a_file_as_the_folder_and_a_run_given_twice_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    assert main(arguments(run, tmp_path / "taken")) == 1
    assert "is a file; give a folder with --out" in capsys.readouterr().err
    assert main(["probe", str(run), str(run), "--out", str(tmp_path / "new")]) == 1
    assert "given twice" in capsys.readouterr().err
    assert main(["probe", "--out", str(tmp_path / "new")]) == 1
    assert "no run was given" in capsys.readouterr().err


def test_the_list_names_sets_with_meaning_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name": "glue_cola", "kind": "binary", "about": "the sentence is grammatical"}.items() <= next(
        row for row in rows if row["name"] == "glue_cola"
    ).items()
    assert main(["probe", "--list"]) == 0
    assert "* probed by default" in capsys.readouterr().out
