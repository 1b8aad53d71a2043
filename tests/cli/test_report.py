"""`quadric report`: what it prints and writes, and what it must never touch."""

import json
import subprocess
import sys

import pytest

from quadric import TopKAutoencoder
from quadric.cli import main
from tests.geometry.examples import planted_shapes

# A report must come from weights: any forward pass, encoding or heavy import makes this script fail.
WATCHED = """
import sys, torch
from quadric.model import BilinearAutoencoder
def forbidden(*args, **kwargs): raise AssertionError("a forward pass")
torch.nn.Module.__call__ = forbidden
BilinearAutoencoder.encode_prepared = forbidden
from quadric.cli import main
code = main(["report", sys.argv[1], "--out", sys.argv[2]])
loaded = {"transformers", "datasets", "matplotlib", "quadric.train.learner"} & set(sys.modules)
text = ("quadric.data.settings", "quadric.data.resources", "quadric.data.corpus")
loaded |= {name for name in sys.modules if name.startswith("quadric.data.") and not name.startswith(text)}
print(code, sorted(loaded))
"""


@pytest.fixture
def run(tmp_path):
    planted_shapes().save_pretrained(tmp_path / "run")
    return str(tmp_path / "run")


def test_it_prints_the_planted_shapes(run, capsys):
    assert main(["report", run]) == 0
    text = capsys.readouterr().out
    for figure in ("circle", "sphere", "hyperbola", "slab"):
        assert figure in text


def test_json_is_for_programs(run, capsys):
    assert main(["report", run, "--json", "--tolerance", "0.01"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tolerance"] == 0.01
    assert report["latents"]["figure"] == ["circle", "sphere", "hyperbola", "slab", "empty", "ellipse"]


def test_it_writes_every_format_that_is_asked_for(run, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("r.json", "r.csv")]
    assert main(["report", run, "--out", *names]) == 0
    assert capsys.readouterr().err.count("wrote") == 2
    assert all((tmp_path / name).stat().st_size > 500 for name in names)


def test_a_name_chooses_among_several(tmp_path, capsys):
    for name in ("first", "second"):
        planted_shapes().save_pretrained(tmp_path / "run/autoencoders" / name)
    run = str(tmp_path / "run")
    assert main(["report", run]) == 1
    assert f"'{run}' holds 2 autoencoders: first, second; choose one with --name" in capsys.readouterr().err
    assert main(["report", run, "--name", "second", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == f"{run}/second"


@pytest.mark.slow
def test_it_needs_neither_a_forward_pass_nor_a_language_model(run, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", WATCHED, run, str(tmp_path / "r.json")], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no folder 'nowhere'"),
        (["RUN", "--out", "report.xlsx"], "ends in '.xlsx'; choose one of .csv, .json"),
        (
            ["RUN", "--out", "report.html"],
            "'report.html': only quadric site writes HTML; open a run in the browser with",
        ),
        (["RUN", "--tolerance", "1.5"], "tolerance=1.5 is not in [0, 1)"),
        (["RUN", "--top", "0"], "top=0 is not positive"),
    ],
)
def test_mistakes_are_one_line(run, capsys, arguments, message):
    assert main(["report", *[run if argument == "RUN" else argument for argument in arguments]]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_linear_dictionary_is_reported_as_such(tmp_path, capsys):
    TopKAutoencoder(d_model=4, n_latents=8, n_active=2).save_pretrained(tmp_path / "ae")
    assert main(["report", str(tmp_path / "ae")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "8 linear (topk) latents over d = 4, each a direction, read as a half-space without curvature" in shown


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", "--help"])
    assert stop.value.code == 0
    assert "Example: quadric report " in capsys.readouterr().out
