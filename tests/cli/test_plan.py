"""`quadric plan`: a prediction for people and for programs, and plain words for what cannot be planned."""

import json

import pytest

from quadric.cli import main
from quadric.training.plan import RunPlan
from tests.activations.tiny import save_tiny


@pytest.mark.parametrize("width", [1024, 1152, 2048])
def test_the_papers_sizes_can_be_planned(width, capsys):
    assert main(["plan", "--d-model", str(width)]) == 0
    text = capsys.readouterr().out
    assert "dense C" in text
    assert "sparse C" in text
    assert "GiB" in text
    assert "just measured" in " ".join(text.split())


def test_json_is_for_programs(capsys):
    assert main(["plan", "--d-model", "64", "--n-latents", "256", "--prior", "atomic", "--steps", "10", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["flops"] == pytest.approx(10 * answer["phases"][0]["flops_per_step"]["total"])
    assert answer["seconds"] == pytest.approx(answer["flops"] / answer["matmul_flops_per_second"])
    assert answer["peak_bytes"] > 0
    assert answer["language_model_flops_per_token"] == 0


def test_a_language_model_adds_its_part(tmp_path, capsys):
    save_tiny(tmp_path)
    arguments = ["plan", "--model", str(tmp_path), "--layer", "2", "--n-latents", "64", "--processes", "2"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["d_model"] == 32
    assert answer["reading_flops_per_step"] == 4096 * answer["language_model_flops_per_token"] > 0
    assert main(arguments) == 0
    assert "runs 2 layers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --model and --layer, or --d-model"),
        (["--model", "smollm2"], "give --model and --layer, or --d-model"),
        (["--d-model", "64", "--model", "smollm2", "--layer", "3"], "give --model and --layer, or --d-model"),
        (["--d-model", "0"], "d_model=0 is not positive"),
        (["--d-model", "64", "--steps", "0"], "steps=0 is not positive"),
        (["--d-model", "64", "--processes", "3"], "cannot be shared evenly"),
        (["--d-model", "64", "--prior", "atomic", "--n-hidden", "3"], "n_hidden=3 differs"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(RunPlan, "as_json", lambda plan: pytest.fail("planned all the same"))
    assert main(["plan", *arguments]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
