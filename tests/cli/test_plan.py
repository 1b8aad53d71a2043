"""`quadric plan`: a prediction for people and for programs, and plain words for what cannot be planned."""

import json

import pytest

from quadric.cli import main
from quadric.studies.planning import planning
from quadric.studies.planning.planning import RunPlan
from tests.data.tiny import save_tiny
from tests.tiny_runs import flags, make_tiny_world

pytestmark = pytest.mark.slow  # whole commands


@pytest.mark.parametrize("width", [1024, 1152, 2048])
def test_the_papers_sizes_can_be_planned(width, capsys):
    assert main(["plan", "--recipe", "paper", "--d-model", str(width)]) == 0
    text = capsys.readouterr().out
    assert "dense C" in text
    assert "sparse C" in text
    assert "GiB" in text
    assert "products alone" in text
    assert "steps that are too large to be tried" in " ".join(text.split())


def test_json_is_for_programs(capsys):
    assert main(["plan", "--d-model", "64", "--n-latents", "256", "--prior", "atomic", "--steps", "10", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (phase,) = answer["phases"]
    assert answer["flops"] == pytest.approx(10 * phase["flops_per_step"]["total"])
    assert answer["seconds"] == pytest.approx(10 * phase["seconds_per_step"])
    assert phase["is_measured"]
    assert answer["peak_bytes"] == phase["peak_bytes"] > phase["state_bytes"]
    assert answer["matmul_flops_per_second"] > 0
    assert answer["language_model_flops_per_token"] == 0


def test_a_large_dictionary_is_planned_in_the_product_space(capsys, monkeypatch):
    monkeypatch.setattr(planning, "measured_seconds", lambda *_: 2.5)
    large = ["plan", "--d-model", "128", "--n-latents", "65536", "--steps", "10", "--batch-tokens", "2048"]
    assert main([*large, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["seconds"] == pytest.approx(25)
    assert answer["peak_bytes"] < 16 * 2**30
    assert main(large) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "sparse C, annealed" in text
    assert "2.5 s" in text
    assert "by a few real steps just measured" in text


def test_a_language_model_adds_its_part(tmp_path, capsys):
    save_tiny(tmp_path)
    arguments = ["plan", "--model", str(tmp_path), "--layer", "2", "--n-latents", "64", "--processes", "2"]
    arguments += ["--sequences-per-step", "32", "--block-length", "256"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["d_model"] == 32
    assert answer["reading_flops_per_step"] == 4096 * answer["language_model_flops_per_token"] > 0
    assert main(arguments) == 0
    assert "runs 2 layers" in capsys.readouterr().out


def test_the_flags_of_train_are_planned(capsys):
    """A train command becomes a plan by changing one word."""
    given = ["--n-latents", "64", "--steps", "10", "--sequences-per-step", "2", "--block-length", "32"]
    given += ["--prior", "atomic", "--alpha", "0.1", "--outliers", "keep", "--out", "runs/x", "--checkpoint-every", "5"]
    assert main(["plan", "--d-model", "16", "--json", *given]) == 0
    answer = json.loads(capsys.readouterr().out)
    (phase,) = answer["phases"]
    assert phase["size"] | {"n_tokens": 64, "n_latents": 64, "storage": "identity"} == phase["size"]
    assert phase["last_step"] == 9


def test_several_autoencoders_are_planned_together(capsys):
    sizes = ["--n-latents", "64", "--steps", "10", "--batch-tokens", "128", "--d-model", "16"]
    several = ["plan", *sizes, "--prior", "atomic", "quadratic", "topk", "--seeds", "0", "1"]
    assert main([*several, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    plans = answer["autoencoders"].values()
    assert len(plans) == 6
    assert answer["flops"] == pytest.approx(sum(plan["flops"] for plan in plans))
    assert answer["checkpoint_bytes"] == sum(plan["checkpoint_bytes"] for plan in plans)
    assert max(plan["peak_bytes"] for plan in plans) < answer["peak_bytes"] < sum(plan["peak_bytes"] for plan in plans)
    assert main(several) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("and 1 more that cost the same") == 3  # one table for both seeds
    assert "Training all 6 dictionaries together" in text


def test_stored_activations_need_no_language_model(tmp_path, capsys):
    world = make_tiny_world(tmp_path)
    cache = str(tmp_path / "cache")
    assert main(["harvest", *flags(world), "--layers", "2", "--tokens", "200", "--out", cache]) == 0
    capsys.readouterr()
    assert main(["plan", "--cache", cache, "--n-latents", "64", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["d_model"], answer["reading_flops_per_step"]) == (32, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--d-model", "64", "--model", "smollm2", "--layer", "3"], "--model, --layers contradict each other"),
        (["--d-model", "64", "--cache", "x"], "--d-model 64 and --cache contradict each other"),
        (["--d-model", "0"], "d_model=0 is not positive"),
        (["--d-model", "64", "--steps", "0"], "steps=0 is not positive"),
        (["--d-model", "64", "--processes", "3"], "cannot be shared evenly"),
        (["--d-model", "64", "--n-active", "3"], "--n-active has no meaning for --prior composite"),
        (["--resume", "runs/x"], "--resume cannot be planned"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(RunPlan, "as_json", lambda plan: pytest.fail("planned all the same"))
    assert main(["plan", *arguments]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
