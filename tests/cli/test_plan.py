"""`quadric plan`: a prediction for people and for programs, and plain words for what cannot be planned."""

import json

import pytest

from quadric.cli import main
from quadric.train.cost import StepSize
from quadric.train.plan import RunPlan
from quadric.train.timing import StepWork, lifted_work
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
    assert "just measured" in " ".join(text.split())


def test_json_is_for_programs(capsys):
    assert main(["plan", "--d-model", "64", "--n-latents", "256", "--prior", "atomic", "--steps", "10", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["flops"] == pytest.approx(10 * answer["phases"][0]["flops_per_step"]["total"])
    assert answer["seconds"] == pytest.approx(answer["flops"] / answer["matmul_flops_per_second"])
    assert answer["peak_bytes"] > 0
    assert answer["language_model_flops_per_token"] == 0


def test_the_time_of_a_large_dictionary_is_that_of_all_its_work(capsys, monkeypatch):
    rates = StepWork(1e9, 1e9, 1e9, 1e8, 1e7, 1e9, 1e7, 1e11)
    measured = []
    monkeypatch.setattr("quadric.train.timing.measure_rates", lambda size: measured.append(size) or rates)
    large = ["plan", "--d-model", "128", "--n-latents", "65536", "--initial-density", "0.0002", "--steps", "10"]
    large += ["--overlap-penalty", "0", "--batch-tokens", "2048"]
    assert main([*large, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["work_per_second"] == rates._asdict()
    assert answer["peak_bytes"] < 16 * 2**30
    assert measured[0].n_latents == 65_536
    assert answer["seconds"] == pytest.approx(sum(5 * lifted_work(size).seconds(rates) for size in sizes(answer)))
    assert main(large) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "sparse C, annealed" in text
    assert "by all their work" in text


def sizes(answer):
    """The sizes of the steps of a plan's phases."""
    return [StepSize(**phase["size"]) for phase in answer["phases"]]


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
    assert phase["size"] | {"n_tokens": 64, "n_latents": 64, "prior": "atomic"} == phase["size"]
    assert phase["last_step"] == 9


def test_several_autoencoders_are_planned_together(capsys):
    sizes = ["--n-latents", "64", "--steps", "10", "--batch-tokens", "128", "--d-model", "16"]
    several = ["plan", *sizes, "--prior", "atomic", "quadratic", "topk", "--seeds", "0", "1"]
    assert main([*several, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    plans = answer["autoencoders"].values()
    assert len(plans) == 4
    assert answer["flops"] == pytest.approx(sum(plan["flops"] for plan in plans))
    assert answer["checkpoint_bytes"] == sum(plan["checkpoint_bytes"] for plan in plans)
    assert max(plan["peak_bytes"] for plan in plans) < answer["peak_bytes"] < sum(plan["peak_bytes"] for plan in plans)
    assert [name.split("-")[1] for name in answer["not_modelled"]] == ["topk", "topk"]
    assert main(several) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("and 1 more that cost the same") == 2  # one table for both seeds
    assert "Training all 4 autoencoders together" in text
    assert "Not included, because their cost is not predicted" in text


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
        (["--d-model", "64", "--prior", "topk"], "plan at least one bilinear prior"),
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
