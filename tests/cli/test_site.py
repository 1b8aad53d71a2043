"""`quadric site` from a run to a folder: collects what is missing, uses what is there, says what is wrong."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import quadric
from quadric import BilinearAutoencoder, TopKAutoencoder
from quadric.cli import main
from quadric.data import ActivationConfig, HarvestConfig, describe, harvest_to_folder
from quadric.data.corpus import CorpusConfig
from quadric.evidence import Evidence
from quadric.model import Provenance
from quadric.viewer import writer
from tests import fresh_process
from tests.cli.terminal import run_on_a_terminal
from tests.data.tiny import D_MODEL, save_tiny

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(writer, "STATIC", folder)
    return folder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ActivationConfig:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(12):
        (folder / f"{number:02d}.txt").write_text(f"Document {number}: " + "word " * (3 + number), encoding="utf-8")
    model = save_tiny(tmp_path_factory.mktemp("models") / "tiny")
    corpus = CorpusConfig(source=str(folder), block_length=32, held_out_fraction=0.0)
    return ActivationConfig(model=str(model), hook_points="layers.1", corpus=corpus)


@pytest.fixture
def run(tmp_path: Path, config: ActivationConfig) -> Path:
    """A run of two autoencoders that know where they come from."""
    provenance = describe(config, device="cpu").for_hook_point("resid_pre.1")
    for name, seed in (("first", 0), ("second", 1)):
        ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=9, prior="atomic", seed=seed, provenance=provenance)
        ae.save_pretrained(tmp_path / "run/autoencoders" / name)
    return tmp_path / "run"


def arguments(run: Path, out: Path, config: ActivationConfig, *more: str) -> list[str]:
    where = ["--model", config.model, "--corpus", config.corpus.source, "--device", "cpu"]
    return ["site", str(run), "--out", str(out), *where, "--points", "20", *more]


def test_a_run_becomes_a_site_and_the_second_time_needs_no_model_and_no_decomposition(
    run: Path,
    tmp_path: Path,
    config: ActivationConfig,
    static: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(arguments(run, tmp_path / "site", config, "--tokens", "300", "--no-map")) == 0
    manifest = json.loads((tmp_path / "site/data/site.json").read_text())
    assert [entry["name"] for entry in manifest["dictionaries"]] == ["first", "second"]
    assert [entry["source_autoencoder"] for entry in manifest["dictionaries"]] == ["first", "second"]
    assert len(manifest["texts"]) == 1
    assert Evidence.load(run / "evidence/first").n_tokens == 300
    shown = capsys.readouterr()
    assert "first, second: scoring up to 300 tokens" in shown.err  # one pass for both
    assert "18 latents of first, second" in shown.out
    module = import_module("quadric.geometry.dictionary_geometry")
    monkeypatch.setattr(module, "dictionary_geometry", lambda *_: pytest.fail("the geometry was computed again"))
    assert main(["site", str(run), "--no-map"]) == 0
    assert (run / "site/data/first/latents/00008.st").is_file()
    assert "scoring" not in capsys.readouterr().err


def test_a_name_chooses_among_several(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(run, tmp_path / "site", config, "--tokens", "100", "--no-map")
    assert main([*command, "--name", "second"]) == 0
    manifest = json.loads((tmp_path / "site/data/site.json").read_text())
    assert [entry["name"] for entry in manifest["dictionaries"]] == ["second"]
    assert not (run / "evidence/first").exists()
    assert main([*command, "--name", "third"]) == 1
    assert "holds 2 autoencoders: first, second, none of them named 'third'" in capsys.readouterr().err


def test_a_site_on_a_real_terminal(run: Path, tmp_path: Path, config: ActivationConfig) -> None:
    """Evidence is collected inside the making of the site: two kinds of progress at the same time."""
    command = arguments(run, tmp_path / "site", config, "--tokens", "300", "--no-map")
    code, shown = run_on_a_terminal(fresh_process.module("quadric"), *command)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "18 latents of first, second" in shown


def test_a_cache_gives_the_same_evidence_as_the_model(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path
) -> None:
    assert main(arguments(run, tmp_path / "site", config, "--no-map")) == 0
    live = Evidence.load(run / "evidence/first")
    for file in (run / "evidence/first").iterdir():
        file.unlink()
    harvest_to_folder(config, HarvestConfig(tokens=10_000, dtype="float32"), tmp_path / "cache", device="cpu")
    cached = ["--cache", str(tmp_path / "cache"), "--model", config.model, "--points", "20", "--no-map"]
    assert main(["site", str(run), "--out", str(tmp_path / "site"), *cached]) == 0
    assert (Evidence.load(run / "evidence/first").points.places == live.points.places).all()


def test_evidence_about_other_weights_or_of_another_size_is_collected_anew(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = arguments(run, tmp_path / "site", config, "--tokens", "200", "--no-map")
    assert main(command) == 0
    provenance = describe(config, device="cpu").for_hook_point("resid_pre.1")
    changed = BilinearAutoencoder(d_model=D_MODEL, n_latents=9, prior="atomic", seed=5, provenance=provenance)
    changed.save_pretrained(run / "autoencoders/first")
    assert main(command) == 0
    assert "first is about other weights; collecting it again" in capsys.readouterr().err
    more = Path(config.corpus.source).with_name("more")
    more.mkdir(exist_ok=True)
    (more / "one.txt").write_text("Another text. " * 40, encoding="utf-8")
    other = [str(more) if part == config.corpus.source else part for part in command]
    assert main(other) == 0
    assert "was collected from other activations" in capsys.readouterr().err
    assert main(command) == 0
    capsys.readouterr()
    command[command.index("200")] = "250"
    assert main(command) == 0
    assert "was collected from 200 tokens; collecting it again" in capsys.readouterr().err


def test_linear_dictionaries_stand_beside_bilinear_ones_and_are_compared_with_them(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = quadric.load(run, name="first").provenance
    topk = TopKAutoencoder(d_model=D_MODEL, n_latents=8, n_active=2, provenance=origin)
    topk.save_pretrained(run / "autoencoders/linear")
    assert main(arguments(run, tmp_path / "site", config, "--tokens", "100", "--no-map")) == 0
    assert "26 latents of first, linear, second" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "site/data/site.json").read_text())
    kinds = {entry["name"]: (entry["is_linear"], entry["prior"]) for entry in manifest["dictionaries"]}
    assert kinds["linear"] == (True, "topk")
    assert not kinds["first"][0]
    assert {(each["first"], each["second"]) for each in manifest["comparisons"]} >= {("first", "linear")}


def test_mistakes_are_said_in_one_line(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(*command: str) -> str:
        assert main(["site", *command]) == 1
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("quadric:")]
        return line

    out = ["--out", str(tmp_path / "site"), "--no-map"]
    assert "no run is named" in complaint(*out)
    assert "holds the run" in complaint(str(run), "--out", str(run.parent))
    assert list(run.rglob("config.json"))
    assert "name its folder with --out" in complaint(str(run), str(run))
    assert "tokens=1 is too small; give at least 2" in complaint(str(run), *out, "--tokens", "1")
    assert "no config.json" in complaint(str(tmp_path / "nowhere"), *out)
    (tmp_path / "empty/autoencoders").mkdir(parents=True)
    assert "expected a run, a folder made by save_pretrained, or" in complaint(str(tmp_path / "empty"), *out)
    planted = BilinearAutoencoder(d_model=8, n_latents=4, prior="atomic", provenance=Provenance(corpus="planted"))
    planted.save_pretrained(tmp_path / "planted")
    assert "does not record its model" in complaint(str(tmp_path / "planted"), *out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter.txt").write_text("mine")
    assert "not a site made by Quadric" in complaint(str(run), "--out", str(tmp_path / "full"))
    (static / "index.html").unlink()
    assert "the viewer is not built" in complaint(str(run), *out)


def test_an_evaluation_of_other_weights_or_of_training_text_is_not_shown(
    run: Path, tmp_path: Path, config: ActivationConfig, static: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "run.json").write_text("{}")
    config = replace(config, corpus=replace(config.corpus, held_out_fraction=0.4))

    def save(name: str, seed: int) -> None:
        provenance = describe(config, device="cpu").for_hook_point("resid_pre.1")
        ae = BilinearAutoencoder(d_model=D_MODEL, n_latents=9, prior="atomic", seed=seed, provenance=provenance)
        ae.save_pretrained(run / "autoencoders" / name)

    for seed, name in enumerate(("first", "second")):
        save(name, seed)
    text = ["--model", config.model, "--corpus", config.corpus.source, "--device", "cpu"]
    measure = ["evaluate", str(run), *text, "--tokens", "50", "--spliced-tokens", "0"]
    command = arguments(run, tmp_path / "site", config, "--tokens", "100", "--no-map")

    def errors() -> list[float | None]:
        assert main(command) == 0
        manifest = json.loads((tmp_path / "site/data/site.json").read_text())
        return [entry["quality"]["error"] for entry in manifest["dictionaries"]]

    assert main([*measure, "--split", "train"]) == 0
    assert "on 50 training tokens" in capsys.readouterr().out.replace("\n", " ")
    assert errors() == [None, None]
    assert "the evaluation of first is of other weights or another text" in capsys.readouterr().err
    assert main([*measure, "--split", "held_out"]) == 0
    assert None not in errors()
    save("first", 5)  # as if it had been trained further
    first, second = errors()
    assert first is None
    assert second is not None
