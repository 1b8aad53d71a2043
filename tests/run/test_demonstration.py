"""The whole pipeline on a tiny model: what each stage stores, and what a second call does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import quadric
from quadric.cli import main
from quadric.data import ActivationConfig
from quadric.data.corpus import CorpusConfig
from quadric.run.demonstration import PARTS, SUMMARY, Demonstration, demonstrate
from quadric.run.folder import evidence_folder
from quadric.run.recipes import DEMO, run_of
from quadric.train import Training
from quadric.viewer.writer import is_site
from tests.tiny_runs import make_tiny_world

pytestmark = pytest.mark.slow  # the first UMAP of a process compiles for half a minute


def small_demonstration(world: Path, folder: Path) -> Demonstration:
    corpus = CorpusConfig(source=str(world / "text.txt"), document_separator="\n\n", block_length=32)
    activations = ActivationConfig(model=str(world / "tiny-llama"), hook_points="2", corpus=corpus)
    recipe = replace(
        DEMO,
        settings={"n_latents": 24, "atoms_per_latent": 5.0},
        loss={"density.warmup": 2},
        training=Training(steps=8),
        sequences_per_step=4,
    )
    return Demonstration(
        config=run_of(recipe, activations, cache=str(folder / "activations")),
        tokens=900,
        points=40,
        evaluated=100,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demonstration, list]:
    world = make_tiny_world(tmp_path_factory.mktemp("world"))
    folder = world / "demo"
    wanted = small_demonstration(world, folder)
    seen: list[str] = []
    demonstrate(folder, wanted, lambda part, done, total, words: seen.append(part))
    return folder, wanted, seen


def test_every_stage_leaves_its_result(made):
    folder, wanted, seen = made
    assert tuple(dict.fromkeys(seen)) == PARTS
    autoencoder = quadric.load(folder)
    assert autoencoder.n_latents == 24
    assert (evidence_folder(folder, wanted.config.cells[0].name) / "evidence.json").is_file()
    assert is_site(folder / "site")
    (entry,) = json.loads((folder / "site" / "data" / "site.json").read_text())["dictionaries"]
    assert 0 < entry["quality"]["error"] < 2
    assert entry["quality"]["n_tokens"] == 100
    assert (folder / "site" / "index.html").is_file()


def test_a_second_call_repeats_no_stage(made):
    folder, wanted, _ = made

    def times():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != SUMMARY}

    before = times()
    demonstrate(folder, wanted, lambda part, done, total, words: pytest.fail(f"{part} was done again"))
    assert before == times()


def test_only_missing_results_are_computed(made):
    folder, wanted, _ = made
    (folder / "site" / "data" / "site.json").unlink()
    for path in sorted((folder / "site").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    seen: list[str] = []
    demonstrate(folder, wanted, lambda part, done, total, words: seen.append(part))
    assert set(seen) == {"clusters", "patterns", "pages"}


def test_a_folder_with_other_files_is_refused(made, tmp_path):
    folder, wanted, _ = made
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        demonstrate(tmp_path, wanted, lambda *_: None)
    other = replace(wanted, config=replace(wanted.config, epochs=7))
    with pytest.raises(FileExistsError, match="another run"):
        demonstrate(folder, other, lambda *_: None)


def test_a_finished_demo_is_remembered(made, capsys):
    folder, _, _ = made
    (folder / SUMMARY).write_text('[{"latent": 3, "label": "north · south", "shape": "slab", "importance": 1.5}]')
    assert main(["demo", "--out", str(folder)]) == 0
    assert f"quadric view {folder} --latent 3" in capsys.readouterr().out
