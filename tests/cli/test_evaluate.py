"""`quadric evaluate` as its user sees it, and against the plain definitions."""

import csv
import json
from pathlib import Path

import pytest
import torch

import quadric
from quadric.cli import main
from quadric.data import ActivationConfig, BatchSize, LiveStream
from quadric.data.corpus import CorpusConfig
from quadric.data.provenance import config_from
from quadric.evaluation import record
from tests.cli.terminal import complaints, only_complaint
from tests.interop.foreign_folders import write
from tests.tiny_runs import WORDS, make_tiny_world, train_command

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    command = train_command(world, folder, "--prior", "composite", "topk", "--held-out-fraction", "0.3")
    assert main([*command, "--layers", "1,2"]) == 0
    return folder


def places(world: Path) -> list[str]:
    return ["--model", str(world / "tiny-llama"), "--corpus", str(world / "text.txt"), "--device", "cpu"]


def evaluate(world: Path, *arguments: str) -> int:
    return main(["evaluate", *arguments, *places(world), "--tokens", "300"])


def test_every_autoencoder_is_measured_on_held_out_text(
    world: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / "all.json"), str(tmp_path / "table.csv")]
    assert evaluate(world, str(run), "--spliced-tokens", "64", "--out", *files) == 0
    printed = capsys.readouterr()
    assert "CE recovered" in printed.out
    assert "sign for which x̂·x ≥ 0" in printed.out.replace("\n", " ")
    found = json.loads((tmp_path / "all.json").read_text())
    with (tmp_path / "table.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == [each["name"] for each in found]
    assert sorted((each["kind"], each["hook_point"]) for each in found) == [
        *[("composite", "resid_pre.1"), ("composite", "resid_pre.2")],
        *[("topk", "resid_pre.1"), ("topk", "resid_pre.2")],
    ]
    assert json.loads((run / "evaluation.json").read_text()) == found  # where a site finds it
    for each in found:
        assert each["error_low"] < each["error"] < each["error_high"]
        assert each["cross_entropy_zero"] != each["cross_entropy_original"]
        assert sum(place["n_tokens"] for place in each["by_position"]) == 300


def test_the_error_is_that_of_the_held_out_tokens_and_of_no_others(
    world: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert evaluate(world, str(run), "--spliced-tokens", "0", "--json") == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    for name, each in found.items():
        ae = quadric.load(run, name=name)
        config = config_from(ae.provenance, model=str(world / "tiny-llama"), corpus=str(world / "text.txt"))
        for split, same in (("held_out", True), ("train", False)):
            stream = LiveStream.open(_with_split(config, split), device="cpu", batch=BatchSize(tokens=300))
            vectors = next(iter(stream)).activations[each["hook_point"]]
            assert (each["error"] == pytest.approx(ae.error(vectors).mean().item(), rel=5e-6)) is same


def _with_split(config, split):
    from dataclasses import replace

    return replace(config, corpus=replace(config.corpus, split=split))


def test_a_perfect_autoencoder_recovers_everything(
    world: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As many active latents as dimensions, encoder and decoder orthonormal, both signs: x̂ = x.
    provenance = quadric.load(run, name=_name(run, "topk")).provenance
    perfect = quadric.TopKAutoencoder(d_model=32, n_latents=64, n_active=64)
    with torch.no_grad():
        axes = torch.cat([torch.eye(32), -torch.eye(32)])
        perfect.encoder.copy_(axes)
        perfect.decoder.copy_(axes)
    perfect.provenance = provenance
    perfect.save_pretrained(tmp_path / "perfect")
    capsys.readouterr()
    assert evaluate(world, str(tmp_path / "perfect"), "--spliced-tokens", "64", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["error"] == pytest.approx(0, abs=1e-5)
    assert found["cross_entropy_recovered_zero"] == pytest.approx(1, abs=1e-3)
    assert found["divergence_recovered_mean"] == pytest.approx(1, abs=1e-3)


def _name(run: Path, kind: str) -> str:
    return next(path.name for path in (run / "autoencoders").iterdir() if kind in path.name)


def test_the_wrong_model_is_refused(world: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_tiny_world(tmp_path / "other")
    (other / "tiny-llama" / "more.bin").write_bytes(b"another model")
    assert evaluate(other, str(run)) == 1
    assert "give the original model with --model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no folder 'nowhere'"),
        (["RUN", "--tokens", "0"], "tokens=0"),
        (["RUN", "--out", "table.xlsx"], "choose one of .csv, .json"),
        (["RUN", "--model", "nowhere/at/all"], "no model 'nowhere/at/all'"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *[str(run) if word == "RUN" else word for word in arguments]]) == 1
    assert message in only_complaint(capsys.readouterr().err)


def test_an_autoencoder_without_a_past_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quadric.TopKAutoencoder(d_model=8, n_latents=9, n_active=2).save_pretrained(tmp_path / "ae")
    assert main(["evaluate", str(tmp_path / "ae")]) == 1
    assert "does not record its model" in capsys.readouterr().err


def test_a_name_chooses_among_several(world: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = _name(run, "topk")
    capsys.readouterr()
    assert evaluate(world, str(run), "--name", name, "--spliced-tokens", "0", "--json") == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [name]
    assert evaluate(world, str(run), "--name", "wrong") == 1
    message = only_complaint(capsys.readouterr().err)
    assert "holds 4 autoencoders: " in message
    assert name in message
    assert "none of them named 'wrong'; choose one with --name" in message


def test_a_folder_that_cannot_be_written_to_costs_no_result(
    world: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(found: object) -> None:
        raise PermissionError(13, "Permission denied", str(run / "evaluation.json"))

    monkeypatch.setattr(record, "keep_in_runs", read_only)
    out = tmp_path / "all.json"
    assert evaluate(world, str(run), "--name", _name(run, "topk"), "--spliced-tokens", "0", "--out", str(out)) == 0
    printed = capsys.readouterr()
    assert "Dead: never reaches" in printed.out
    assert len(json.loads(out.read_text())) == 1
    (warning,) = complaints(printed.err)
    assert "not kept in the run folder" in warning
    assert "Permission denied" in warning


def test_a_folder_of_another_library_is_measured_on_text_that_is_given(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    d = read_width(world)
    generator = torch.Generator().manual_seed(0)
    shapes = {"W_enc": (d, 24), "W_dec": (24, d), "b_enc": (24,), "b_dec": (d,)}
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    about = {"model_name": "gone", "hook_name": "blocks.1.hook_resid_post"}
    settings = {"architecture": "topk", "k": 4, "d_in": d, "d_sae": 24, "metadata": about}
    folder = write(tmp_path / "sae", "cfg.json", settings, "sae_weights.safetensors", tensors)
    assert main(["evaluate", str(folder)]) == 1
    assert (
        "was trained elsewhere, on gone at resid_pre.2, and does not record its text; give --corpus"
        in only_complaint(capsys.readouterr().err)
    )
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": f"{number}. {WORDS * 3}"}) + "\n" for number in range(60)))
    where = ["--model", str(world / "tiny-llama"), "--corpus", str(text), "--device", "cpu", "--tokens", "300"]
    assert main(["evaluate", str(folder), *where, "--spliced-tokens", "64", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["hook_point"], found["name"]) == ("topk", "resid_pre.2", "sae")
    corpus = CorpusConfig(source=str(text), split="held_out")
    config = ActivationConfig(model=str(world / "tiny-llama"), hook_points="2", corpus=corpus)
    batch = next(iter(LiveStream.open(config, device="cpu", batch=BatchSize(tokens=4096)))).rows(0, 300)
    error = quadric.load(folder).error(batch.activations["resid_pre.2"]).mean()
    assert found["error"] == pytest.approx(error.item(), rel=1e-4)
    assert not (folder / "evaluation.json").exists()


def read_width(world: Path) -> int:
    return int(json.loads((world / "tiny-llama" / "config.json").read_text())["hidden_size"])
